"""Where the work is done: in processes of this machine, or on a Dask cluster. Both give (job, result or exception).

A job is run by `sandbox.work`, a function of the job alone, so how many workers there are and which of them runs a job
changes nothing. A worker that dies costs no more than a second run of the jobs it had.
"""

import concurrent.futures
import itertools
import multiprocessing
from concurrent.futures.process import BrokenProcessPool

from deploy.grading import sandbox

AHEAD = 4  # jobs that are handed out for each worker, at most
FRUITLESS = 3  # times that workers may die with no job done in between


class Left(Exception):
    """A job that was not done, through no fault of its own."""


def on_processes(jobs, workers):
    """Run the jobs in `workers` processes of this machine."""
    jobs, again, fruitless = iter(jobs), [], 0
    while True:
        first = next(again_and_new := itertools.chain(again, jobs), None)
        if first is None:
            return
        running, again = {}, []
        with concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            try:
                source = itertools.chain([first], again_and_new)
                for job in itertools.islice(source, workers * AHEAD):
                    running[pool.submit(sandbox.work, job)] = job
                while running:
                    done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                    for future in done:
                        error = future.exception()
                        if isinstance(error, BrokenProcessPool):
                            raise error
                        job = running.pop(future)
                        fruitless = 0
                        for more in itertools.islice(source, 1):
                            running[pool.submit(sandbox.work, more)] = more
                        yield job, error or future.result()
            except BrokenProcessPool:
                # All that were handed out are lost with the pool: they begin anew in another one.
                fruitless += 1
                again = list(running.values())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list((pool._processes or {}).values()):
                    process.kill()
                raise
        if fruitless >= FRUITLESS:
            for job in itertools.chain(again, jobs):
                yield job, Left("the worker processes of this machine were ended again and again")
            return


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
