"""`python -m deploy.grading SUBMISSIONS`: see grade.py."""

import signal
import sys

# A worker process imports this file too, and should load nothing for it.
if __name__ == "__main__":
    from deploy.grading.grade import main

    # As with Ctrl-C: what is graded is kept, and the workers end.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
