"""Accounts of a class: one for each line of a list, each with a password that is shown once.

    python deploy/hub/students.py class.txt > passwords.csv

A line is a user name: small letters, digits and hyphens, a letter first. Names that have an account keep it and their
password. Only accounts made here can log in; nobody can sign up.
"""

import csv
import os
import pathlib
import re
import secrets
import sys

NAME = re.compile(r"[a-z][a-z0-9-]{0,23}")
# Letters and digits that are not mistaken for others on paper.
ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"


def names_in(text):
    """The names of a list, one a line; ValueError names every line that is no name or stands twice."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    names = [(number, line) for number, line in lines if line and not line.startswith("#")]
    wrong = [f"line {number}: {line!r} is no user name" for number, line in names if not NAME.fullmatch(line)]
    seen = set()
    wrong += [f"line {number}: {line!r} stands twice" for number, line in names if line in seen or seen.add(line)]
    if wrong:
        form = "A name has small letters, digits and hyphens, begins with a letter, and has at most 24 signs."
        raise ValueError("\n".join([*wrong, form]))
    return [line for _, line in names]


def new_password():
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(4)) for _ in range(3))


def add(names, database):
    """Make the accounts that are missing in the hub's database; returns {name: password} of the new ones."""
    import bcrypt
    from jupyterhub import orm
    from nativeauthenticator.orm import UserInfo

    session = orm.new_session_factory(database)()
    UserInfo.__table__.create(session.get_bind(), checkfirst=True)
    made = {}
    for name in names:
        if UserInfo.find(session, name) is None:
            made[name] = new_password()
            hashed = bcrypt.hashpw(made[name].encode(), bcrypt.gensalt())
            session.add(UserInfo(username=name, password=hashed, is_authorized=True))
    session.commit()
    session.close()
    return made


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    database = os.environ.get("AUTODIFF_HUB_DB", "sqlite:////srv/autodiff/state/hub.sqlite")
    try:
        names = names_in(pathlib.Path(arguments[0]).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"The class list was not read, and nothing has changed:\n{error}", file=sys.stderr)
        return 1
    made = add(names, database)
    writer = csv.writer(sys.stdout)
    writer.writerow(["name", "password"])
    writer.writerows(made.items())
    print(f"{len(made)} accounts made, {len(names) - len(made)} were there already.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
