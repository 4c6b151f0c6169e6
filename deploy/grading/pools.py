"""Where the work is done: in processes of this machine, or on a Dask cluster. Both give (job, result or exception).

A job is run by `sandbox.work`, a function of the job alone, so how many workers there are and which of them runs a job
changes nothing. A worker that dies costs no more than a second run of the jobs it had.
"""

import concurrent.futures
import itertools
import multiprocessing
import os
from concurrent.futures.process import BrokenProcessPool

from deploy.grading import sandbox

AHEAD = 4  # jobs that are handed out for each worker, at most
FRUITLESS = 3  # times that workers may die with no job done in between


class Left(Exception):
    """A job that was not done, through no fault of its own."""


def on_processes(jobs, workers):
    """Run the jobs in `workers` processes of this machine."""
    jobs, again, fruitless = iter(jobs), [], 0
    while fruitless < FRUITLESS:
        running = {}
        spawn = multiprocessing.get_context("spawn")
        pool = concurrent.futures.ProcessPoolExecutor(workers, spawn, sandbox.end_with_parent, (os.getpid(),))
        try:
            while True:
                while len(running) < workers * AHEAD:
                    # A job is in one of the two lists at every moment: submitting may fail.
                    if not again and (job := next(jobs, None)) is not None:
                        again.append(job)
                    if not again:
                        break
                    running[pool.submit(sandbox.work, again[-1])] = again[-1]
                    again.pop()
                if not running:
                    return
                for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                    error = future.exception()
                    if isinstance(error, BrokenProcessPool):
                        raise error
                    fruitless = 0
                    yield running.pop(future), error or future.result()
        except BrokenProcessPool:
            # All that were handed out are lost with the pool: they begin anew in another one.
            fruitless += 1
            again += running.values()
        finally:
            for process in list((pool._processes or {}).values()):
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
    for job in itertools.chain(again, jobs):
        yield job, Left("the worker processes of this machine were ended again and again")


def on_dask(jobs, address):
    """Run the jobs on the cluster whose scheduler has this address."""
    import cloudpickle
    from dask.distributed import Client, as_completed

    # The workers need Python, bubblewrap and the course; this file comes with the job.
    cloudpickle.register_pickle_by_value(sandbox)
    jobs = iter(jobs)
    with Client(address, timeout="30s") as client:
        threads = sum(client.nthreads().values())
        if not threads:
            raise Left(f"the scheduler at {address} has no workers: start some with `dask worker {address}`")
        running = {}

        def submit(job):
            future = client.submit(sandbox.work, job, pure=False, retries=2)
            running[future.key] = job
            return future

        waiting = as_completed([submit(job) for job in itertools.islice(jobs, threads * AHEAD)])
        for future in waiting:
            job = running.pop(future.key)
            error = future.exception()
            for more in itertools.islice(jobs, 1):
                waiting.add(submit(more))
            yield job, error or future.result()
            future.release()
