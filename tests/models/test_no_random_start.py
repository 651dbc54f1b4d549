import torch

from eyechart.models.towers.torch_tools import no_random_start


def drawn(build):
    """Tell whether building something takes numbers from torch's generator."""
    before = torch.get_rng_state()
    build()
    return not torch.equal(before, torch.get_rng_state())


def network():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.MultiheadAttention(4, 2), torch.nn.Conv2d(3, 3, 2))


def test_no_numbers_are_drawn_for_weights():
    assert drawn(network)
    with no_random_start():
        assert not drawn(network)


def test_constants_are_still_filled_in():
    with no_random_start():
        norm = torch.nn.LayerNorm(3)

    assert norm.weight.tolist() == [1, 1, 1]


def test_afterwards_weights_are_random_again():
    with no_random_start():
        network()

    assert drawn(network)
