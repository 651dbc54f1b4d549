import pytest

from eyechart.engine.ranks import rank_and_size, share_of
from eyechart.errors import UsageError


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "1", "WORLD_SIZE": "4"}, (1, 4)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, (0, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2)),
        ({}, (0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "4", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, (3, 4)),
    ],
)
def test_launchers_are_understood_and_without_one_there_is_one_process(environment, expected):
    assert rank_and_size(environment) == expected


@pytest.mark.parametrize("environment", [{"RANK": "4", "WORLD_SIZE": "4"}, {"RANK": "x", "WORLD_SIZE": "4"}])
def test_impossible_ranks_are_wrong_usage(environment):
    with pytest.raises(UsageError):
        rank_and_size(environment)


def test_every_job_belongs_to_exactly_one_rank():
    jobs = list(range(10))

    shares = [share_of(jobs, rank, 3) for rank in range(3)]

    assert sorted(job for share in shares for job in share) == jobs
