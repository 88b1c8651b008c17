"""Training under `torch.compile(backend="relaxc")`: gradients and steps as those of eager PyTorch. Skipped where there is no PyTorch."""

import copy
import warnings

import pytest
import relaxc

torch = pytest.importorskip("torch")

import relaxc.torch  # noqa: E402

F = torch.nn.functional
#: Relative, in f64.
TOLERANCE = 1e-10
BATCHES = (3, 1, 2, 7)


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.inputs, self.output = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.wide, self.narrow = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (y.view(b, t, self.heads, w // self.heads).transpose(1, 2) for y in self.inputs(self.before(x)).split(w, 2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).reshape(b, t, w))
        return x + self.narrow(F.gelu(self.wide(self.between(x))))


class Transformer(torch.nn.Module):
    """The loss of the next character."""

    def __init__(self, characters=11, width=8, heads=2):
        super().__init__()
        self.embedding, self.places = torch.nn.Embedding(characters, width), torch.nn.Embedding(32, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(2))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, characters)

    def forward(self, x, y):
        z = self.embedding(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            z = block(z)
        return F.cross_entropy(self.head(self.norm(z)).flatten(0, 1), y.flatten())


class Residual(torch.nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.first = torch.nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = torch.nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(after) for _ in range(2))
        short = (torch.nn.Conv2d(before, after, 1, stride, bias=False), torch.nn.BatchNorm2d(after))
        self.short = torch.nn.Identity() if before == after else torch.nn.Sequential(*short)

    def forward(self, x):
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.short(x))


class ResNet(torch.nn.Module):
    """The loss of five classes."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Conv2d(3, 4, 3, 1, 1), torch.nn.BatchNorm2d(4)
        self.pool = torch.nn.MaxPool2d(3, 2, 1)
        self.blocks = torch.nn.Sequential(Residual(4, 4, 1), Residual(4, 8, 2))
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x, y):
        # PyTorch's batch norm asks whether there is an image.
        torch._check(x.shape[0] > 0)
        z = self.blocks(self.pool(F.relu(self.norm(self.first(x)))))
        return F.cross_entropy(self.head(F.adaptive_avg_pool2d(z, 1).flatten(1)), y)


def characters(n):
    made = torch.Generator().manual_seed(n)
    x = torch.randint(0, 11, (n, n + 4), generator=made)
    return x, x.roll(-1, 1)


def images(n):
    made = torch.Generator().manual_seed(n)
    return torch.randn(n, 3, 8, 8, dtype=torch.float64, generator=made), torch.randint(0, 5, (n,), generator=made)


MODELS = [(Transformer, characters, {"x": (0, 1), "y": (0, 1)}), (ResNet, images, {"x": 0, "y": 0})]
NAMED = pytest.mark.parametrize("model, data, dims", MODELS, ids=["transformer", "resnet"])


@pytest.fixture(autouse=True)
def forgotten():
    torch._dynamo.reset()
    yield


def pair(model, dims):
    """A compiled model, itself, and a copy of it."""
    torch.manual_seed(0)
    own = model().double()
    other = copy.deepcopy(own)
    return relaxc.torch.dynamic(torch.compile(own, backend=relaxc.torch.backend), dims), own, other


def near(found, expected):
    """Equal, relative to the largest element."""
    apart = (found - expected).abs().max() if expected.numel() else torch.tensor(0.0)
    assert found.shape == expected.shape
    assert apart <= TOLERANCE * max(1e-3, float(expected.abs().max())), float(apart)


def same_gradients(own, other):
    for (name, mine), theirs in zip(own.named_parameters(), other.parameters()):
        assert (mine.grad is None) == (theirs.grad is None), name
        if theirs.grad is not None:
            near(mine.grad, theirs.grad)
            mine.grad = theirs.grad = None
    for mine, theirs in zip(own.buffers(), other.buffers()):
        near(mine.double(), theirs.double())


def whole(made):
    """A forward and a backward graph, of which PyTorch runs nothing."""
    assert len(made) == 2, made
    for one in made:
        assert one.fallback is None and len(one.subgraphs) == 1, one


@NAMED
def test_gradients_at_several_sizes_with_one_compilation(model, data, dims):
    before = len(relaxc.torch.compilations())
    compiled, own, other = pair(model, dims)
    for n in BATCHES:
        given = data(n)
        mine, theirs = compiled(*given), other(*given)
        near(mine.detach(), theirs.detach())
        mine.backward()
        theirs.backward()
        same_gradients(own, other)
    whole(relaxc.torch.compilations()[before:])


@NAMED
def test_steps(model, data, dims):
    before = len(relaxc.torch.compilations())
    compiled, own, other = pair(model, dims)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9) for one in (own, other)]
    losses = []
    for step in range(6):
        given = data(2 + step % 3)
        for call, optimizer in zip((compiled, other), optimizers):
            optimizer.zero_grad()
            loss = call(*given)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    for mine, theirs in zip(losses[::2], losses[1::2]):
        near(mine, theirs)
    assert losses[0] != losses[6]
    whole(relaxc.torch.compilations()[before:])


class Layers(torch.nn.Module):
    """Layers that the two models lack."""

    def __init__(self, normalized=True):
        super().__init__()
        self.first = torch.nn.Conv2d(2, 4, 3, 2, 1, groups=2)
        self.up = torch.nn.ConvTranspose2d(4, 4, 3, 2, 1, output_padding=1)
        self.group, self.batch = torch.nn.GroupNorm(2, 4), torch.nn.BatchNorm2d(4)
        self.line = torch.nn.Conv1d(4, 3, 2, dilation=2)

    def forward(self, x):
        torch._check(x.shape[0] > 0)
        y = self.batch(F.silu(self.group(self.up(self.first(x)))))
        y = F.avg_pool2d(y, 3, 2, 1, count_include_pad=False) + F.adaptive_avg_pool2d(y, (4, 4))
        return self.line(y.flatten(2)).tanh().sum()


@pytest.mark.parametrize("is_training", [True, False])
def test_gradients_of_other_layers(is_training):
    before = len(relaxc.torch.compilations())
    compiled, own, other = pair(Layers, {"x": 0})
    for one in (own, other):
        one.train(is_training)
    for n in (2, 1, 3):
        x = torch.randn(n, 2, 8, 8, dtype=torch.float64)
        mine, theirs = compiled(x), other(x)
        mine.backward()
        theirs.backward()
        same_gradients(own, other)
    whole(relaxc.torch.compilations()[before:])


def test_gradients_of_attention_with_a_mask():
    def function(q, k, v, mask):
        return (F.scaled_dot_product_attention(q, k, v, attn_mask=mask) ** 2).sum()

    before = len(relaxc.torch.compilations())
    dims = {"q": 2, "k": 2, "v": 2, "mask": (0, 1)}
    compiled = relaxc.torch.dynamic(torch.compile(function, backend=relaxc.torch.backend), dims)
    for t, s in ((3, 4), (1, 2), (5, 1)):
        sizes = [(2, 2, t, 4), (2, 2, s, 4), (2, 2, s, 4)]
        mine = [torch.randn(*size, dtype=torch.float64, requires_grad=True) for size in sizes]
        theirs = [one.detach().clone().requires_grad_() for one in mine]
        mask = torch.randn(t, s, dtype=torch.float64)
        compiled(*mine, mask).backward()
        function(*theirs, mask).backward()
        for one, other in zip(mine, theirs):
            near(one.grad, other.grad)
    whole(relaxc.torch.compilations()[before:])


def test_an_operator_of_pytorch_in_training_leaves_the_rest_compiled():
    def function(x, w):
        return (torch.i0((x @ w).abs() + 1) * x).sum()

    before = len(relaxc.torch.compilations())
    compiled = relaxc.torch.dynamic(torch.compile(function, backend=relaxc.torch.backend), {"x": 0})
    w = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    v = w.detach().clone().requires_grad_()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in (3, 1, 0, 7):
            x = torch.randn(n, 4, dtype=torch.float64)
            compiled(x, w).backward()
            function(x, v).backward()
            near(w.grad, v.grad)
    made = relaxc.torch.compilations()[before:]
    assert [["p" if part.fallback else "c" for part in one.subgraphs] for one in made] == [["c", "p", "c"]] * 2, made
    said = [str(one.message) for one in caught if one.category is relaxc.FallbackWarning]
    assert len(said) == 2 and "aten.i0.default" in said[0] and "aten.special_i1.default" in said[1]


def test_sizes_cross_to_the_backward_graph_as_integers():
    """The gradient of a mean is a number for each element, and no tensor that is kept has their count."""

    def function(x):
        return (x.reshape(-1, 2) * 3).mean()

    before = len(relaxc.torch.compilations())
    compiled = relaxc.torch.dynamic(torch.compile(function, backend=relaxc.torch.backend), {"x": 0})
    for n in (3, 1, 7, 2):
        mine = torch.randn(n, 4, dtype=torch.float64, requires_grad=True)
        theirs = mine.detach().clone().requires_grad_()
        compiled(mine).backward()
        function(theirs).backward()
        near(mine.grad, theirs.grad)
    whole(relaxc.torch.compilations()[before:])


def test_floats_of_sizes_are_computed():
    """Those of the gradient of a variance: 2 / (n - 1)."""

    def function(x):
        return (x.var(0) + x.std(0)).sum() * (x.shape[0] / 3)

    before = len(relaxc.torch.compilations())
    compiled = torch.compile(function, backend=relaxc.torch.backend, dynamic=True)
    for n in (3, 5, 2):
        mine = torch.randn(n, 4, dtype=torch.float64, requires_grad=True)
        theirs = mine.detach().clone().requires_grad_()
        compiled(mine).backward()
        function(theirs).backward()
        near(mine.grad, theirs.grad)
    whole(relaxc.torch.compilations()[before:])


def test_numbers_of_sizes_that_pytorch_makes_tensors_of():
    """The divisor of the mean over the batch is a float of a size."""

    def function(x, y):
        return F.kl_div(x.log_softmax(1), y, reduction="batchmean") + F.smooth_l1_loss(x, y)

    before = len(relaxc.torch.compilations())
    compiled = torch.compile(function, backend=relaxc.torch.backend, dynamic=True)
    for n in (3, 5, 2):
        mine = torch.randn(n, 4, dtype=torch.float64, requires_grad=True)
        theirs = mine.detach().clone().requires_grad_()
        y = torch.randn(n, 4, dtype=torch.float64).softmax(1)
        compiled(mine, y).backward()
        function(theirs, y).backward()
        near(mine.grad, theirs.grad)
    whole(relaxc.torch.compilations()[before:])


def test_dropout_is_run_by_pytorch_with_its_random_numbers():
    before = len(relaxc.torch.compilations())
    layers = (torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))
    compiled, own, other = pair(lambda: torch.nn.Sequential(*layers), {"input": 0})
    with pytest.warns(relaxc.FallbackWarning, match="1 × aten.native_dropout.default: dropout in training, which is random"):
        for n in (3, 1, 6):
            x = torch.randn(n, 4, dtype=torch.float64)
            for model in (compiled, other):
                torch.manual_seed(n)
                (model(x) ** 2).sum().backward()
            same_gradients(own, other)
    forward, backward = relaxc.torch.compilations()[before:]
    assert [part.fallback is None for part in forward.subgraphs] == [True, False, True] and backward.fallback is None


def kinds(x, w):
    y = x @ w
    return (F.elu(y) + F.leaky_relu(y) + F.softplus(y) + F.silu(y) + F.hardtanh(y) + torch.sigmoid(y)).pow(2).sum()


def reductions(x, w):
    return (x.std(1) + x.var(0).sum() + x.amax(1) + x.logsumexp(1) + x.prod(1) + x.norm(dim=1)).sum() + w.mean()


def places(x, w):
    at = torch.arange(x.shape[0])
    return (x[at] * x.gather(1, at[:, None] % 4) + x.index_select(0, at)).sum() + x.sort(1)[0].cumsum(1).sum() + x.topk(2, 1)[0].sum()


def pieces(x, w):
    both = torch.cat((x, x.flip(0)), 1).split([3, 5], 1)
    return sum((part * (k + 1) ** 2).sum() for k, part in enumerate(both)) + torch.einsum("ij,jk->ik", x, w).tanh().sum()


def losses(x, w):
    y = (x.detach() @ w).sigmoid()
    return F.mse_loss(x, y) + F.l1_loss(x, y) + F.smooth_l1_loss(x, y) + F.binary_cross_entropy_with_logits(x, y) + F.huber_loss(x, y)


def pools(x, w):
    image = (x @ w)[:, None, None, :] * x[:, None, :, None]
    wide = F.interpolate(image, scale_factor=2.0, mode="bilinear") + F.interpolate(image, scale_factor=2.0, mode="nearest").pow(2)
    return F.max_pool2d(wide, 3, 2, ceil_mode=True).pow(2).sum() + F.avg_pool2d(F.pad(wide, (1, 1, 1, 1), mode="reflect"), 3).sum()


@pytest.mark.parametrize("function", [kinds, reductions, places, pieces, losses, pools])
def test_gradients_of_many_operators(function):
    before = len(relaxc.torch.compilations())
    compiled = torch.compile(function, backend=relaxc.torch.backend, dynamic=True)
    for n in (3, 5, 2):
        mine = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((n, 4), (4, 4))]
        theirs = [one.detach().clone().requires_grad_() for one in mine]
        compiled(*mine).backward()
        function(*theirs).backward()
        for one, other in zip(mine, theirs):
            if other.grad is not None:
                near(one.grad, other.grad)
    whole(relaxc.torch.compilations()[before:])
