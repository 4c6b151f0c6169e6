"""`python -m deploy.grading SUBMISSIONS`: see grade.py."""

import sys

# A worker process imports this file too, and should load nothing for it.
if __name__ == "__main__":
    from deploy.grading.grade import main

    sys.exit(main(sys.argv[1:]))
