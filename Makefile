# Set-up and everyday commands; README.md gives the plain commands behind `lab` and `test`.

ifeq ($(OS),Windows_NT)
PYTHON ?= python
VENV_PYTHON := .venv/Scripts/python
else
PYTHON ?= python3
VENV_PYTHON := .venv/bin/python
endif

# Extras that `make test` installs; CI adds browser and bench.
EXTRAS ?= course,test
# Passed on to the command behind the target: make lab ARGS="--no-browser", make test ARGS="tests/test_project.py -k wheel".
ARGS ?=

comma := ,
# A Python named on the command line is the one to use; else the environment that is there is kept.
SAME := $(if $(findstring command,$(origin PYTHON)),--same-python)
SET_UP = @$(PYTHON) deploy/bootstrap.py $(SAME)

.DEFAULT_GOAL := help
.PHONY: help lab test notebooks exercises reference book lite course grade hub bench lint lock clean

help:
	@echo "make lab        set up, then open JupyterLab on the first lesson (PORT=8890, ARGS=--no-browser)"
	@echo "make test       set up, then run every test, doctest, lesson and solution (ARGS=\"-k name\")"
	@echo "make notebooks  run the lessons and solutions again and store their outputs (ARGS=notebooks/NN_name.ipynb)"
	@echo "make exercises  write exercises/ anew from solutions/"
	@echo "make reference  write autodiff/README.md anew from the docstrings"
	@echo "make book       build the lessons as a site to read offline, build/book (ARGS=--check-links asks the network)"
	@echo "make course     write an nbgrader course folder, build/course (ARGS=../my-course writes another one)"
	@echo "make lite       build the course as a site that runs in the browser, build/lite (ARGS=--serve shows it here)"
	@echo "make grade      mark what students handed in, each in a sandbox (SUBMISSIONS=folder)"
	@echo "make hub        start a class server on this machine, as root (ARGS=\"--students class.txt\")"
	@echo "make bench      time the engine beside its peers (ARGS=\"--quick doublings\" for some rows)"
	@echo "make lint       check the style of the code"
	@echo "make lock       pin the newest versions that work together in deploy/constraints.txt"
	@echo "make clean      remove .venv, caches and build folders"
	@echo "All of them take another Python as in: make PYTHON=python3.12 lab"

lab:
	$(SET_UP) course
	@$(VENV_PYTHON) deploy/lab.py $(if $(PORT),--port $(PORT)) $(ARGS)

test:
	$(SET_UP) $(subst $(comma), ,$(EXTRAS))
	@$(VENV_PYTHON) -m pytest -n 2 --dist loadfile $(ARGS)

notebooks:
	$(SET_UP) course test
	@$(VENV_PYTHON) deploy/notebooks.py $(ARGS)

exercises:
	$(SET_UP) course test
	@$(VENV_PYTHON) -m autodiff.course.generate $(ARGS)

reference:
	$(SET_UP) course test
	@$(VENV_PYTHON) deploy/api.py $(ARGS)

book:
	$(SET_UP) course book
	@$(VENV_PYTHON) deploy/book/build.py $(ARGS)

course:
	$(SET_UP) course test
	@$(VENV_PYTHON) deploy/course/build.py $(ARGS)

lite:
	$(SET_UP) course lite
	@$(VENV_PYTHON) deploy/lite/build.py $(ARGS)

grade:
	$(SET_UP) course test grading
	@$(VENV_PYTHON) -m deploy.grading $(if $(SUBMISSIONS),"$(SUBMISSIONS)") $(ARGS)

hub:
	@$(PYTHON) deploy/hub/start.py $(ARGS)

bench:
	$(SET_UP) bench
	@$(VENV_PYTHON) benchmarks/run.py $(ARGS)

lint:
	$(SET_UP) course test
	@$(VENV_PYTHON) -m ruff check . $(ARGS)

lock:
	@$(PYTHON) deploy/lock.py

clean:
	rm -rf .venv .artifacts .hypothesis .pytest_cache .ruff_cache build dist *.egg-info
	find . \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +
