"""Accounts of a class: one for each line of a list, each with a password of its own.

    python deploy/hub/students.py /srv/autodiff/state --students class.txt
    python deploy/hub/students.py /srv/autodiff/state --new-password anna

A line is a user name: small letters, digits and hyphens, a letter first. Names that have an account keep it and their
password. Only accounts made here can log in; nobody can sign up. Passwords are written to passwords.csv in that folder,
and nowhere else: the hub keeps hashes. deploy/hub/start.py runs this.
"""

import argparse
import csv
import logging
import os
import pathlib
import re
import secrets
import sys

NAME = re.compile(r"[a-z][a-z0-9-]{0,23}")
# Letters and digits that are not mistaken for others on paper.
ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


class ListError(Exception):
    """Its text says what is wrong with the list."""


def read(path):
    """The names in this file, one a line."""
    try:
        return names_in(pathlib.Path(path).read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise ListError(f"{path} is not plain text in UTF-8: save it as such.") from None
    except OSError as error:
        reason = f"{path} could not be read ({error.strerror})"
        raise ListError(f"{reason}: name a file with one user name a line.") from None


def names_in(text):
    """The names of a list, one a line; ListError names every line that is no name or stands twice."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    names = [(number, line) for number, line in lines if line and not line.startswith("#")]
    wrong = [f"line {number}: {line!r} is no user name" for number, line in names if not NAME.fullmatch(line)]
    seen = set()
    wrong += [f"line {number}: {line!r} stands twice" for number, line in names if line in seen or seen.add(line)]
    if wrong:
        form = "A name has small letters, digits and hyphens, begins with a letter, and has at most 24 signs."
        raise ListError("\n".join([*wrong, form]))
    if not names:
        raise ListError("The list has no names.")
    return [line for _, line in names]


def new_password():
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(3))


class Accounts:
    """The accounts in the hub's database. What was changed holds once `commit` was called."""

    def __init__(self, database):
        from jupyterhub import dbutil, orm
        from nativeauthenticator.orm import UserInfo

        dbutil.upgrade_if_needed(database, log=logging.getLogger(__name__))
        self.token, self.info = orm.APIToken, UserInfo
        self.session = orm.new_session_factory(database)()
        UserInfo.__table__.create(self.session.get_bind(), checkfirst=True)

    def names(self):
        return {info.username for info in self.session.query(self.info)}

    def add(self, name):
        """Make an account; returns its password."""
        password = new_password()
        self.session.add(self.info(username=name, password=hashed(password), is_authorized=True))
        return password

    def renew(self, name):
        """Give the account another password, and return it."""
        password = new_password()
        self.info.find(self.session, name).password = hashed(password)
        return password

    def end_sessions(self):
        """Take back every token that was given out; for a hub that does not run."""
        self.session.query(self.token).delete()

    def commit(self):
        self.session.commit()
        self.session.close()


def hashed(password):
    import bcrypt

    return bcrypt.hashpw(password.encode(), bcrypt.gensalt())


def write(path, passwords):
    """Add {name: password} to the file, which its owner alone can read; a name that is in it gets the new one."""
    known = {}
    if path.exists():
        with open(path, encoding="utf-8", newline="") as stream:
            known = {row["name"]: row["password"] for row in csv.DictReader(stream)}
    draft = path.with_suffix(".new")
    opened = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with open(opened, "w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["name", "password"])
        writer.writerows((known | passwords).items())
    os.replace(draft, path)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state", type=pathlib.Path)
    parser.add_argument("--students", type=pathlib.Path)
    parser.add_argument("--new-password", metavar="NAME", action="append", default=[])
    parser.add_argument("--end-sessions", action="store_true")
    options = parser.parse_args(arguments)
    logging.disable(logging.INFO)
    try:
        listed = read(options.students) if options.students else []
        accounts = Accounts(f"sqlite:///{options.state.resolve() / 'hub.sqlite'}")
        known = accounts.names()
        if unknown := [name for name in options.new_password if name not in known]:
            raise ListError(f"There is no account of {', '.join(unknown)}.")
        passwords = {name: accounts.add(name) for name in listed if name not in known}
        passwords |= {name: accounts.renew(name) for name in options.new_password}
        if options.end_sessions:
            accounts.end_sessions()
    except ListError as error:
        print(f"Nothing has changed:\n{error}", file=sys.stderr)
        return 1
    file = options.state / "passwords.csv"
    if passwords:
        write(file, passwords)
    accounts.commit()
    if passwords:
        print(f"{len(passwords)} new passwords are in {file}: hand them out, then delete the file.")
    if options.students and (others := sorted(known - set(listed))):
        print(f"Not in the list, and kept with their work: {', '.join(others)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
