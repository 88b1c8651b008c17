/* A product, C with rows c_row apart, and how it is cut into parts. Where `fill` is not NULL it gives the elements of B, and
   `first` is the number of the first term; `weigh` may be NULL. Where `single`, each row is computed as the row of a product of one. */
typedef struct rx_job {
    int64_t m, n, depth;
    rx_matrix a, b;
    float *c;
    int64_t c_row;
    rx_finish finish;
    const void *context;
    int turned;
    int64_t row_parts, column_parts;
    rx_fill fill;
    const void *filler;
    int64_t first;
    rx_weigh weigh;
    const void *weigher;
    int by_columns, single;
} rx_job;

static void rx_finished(const rx_job *job, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    if (job->finish == NULL) return;
    if (job->turned) job->finish(job->context, c0, c1, r0, r1);
    else job->finish(job->context, r0, r1, c0, c1);
}

/* The block of B that tiles of rows pass over. Where it is in panels, `then` are those that are read afterwards, if any. */
typedef struct rx_pass {
    rx_matrix block;
    const float *panels, *then;
    int64_t width, deep, tiles;
    int packs, more;
} rx_pass;

/* A tile of rows, as wide as a block. While a panel is read the next one is asked for; where more tiles pass over the block,
   each asks for a share of the block after it. */
static void rx_strip(const rx_job *job, const rx_pass *pass, int64_t tile, int64_t rows, const float *left,
                     rx_ahead *ahead, float *c) {
    const rx_matrix block = pass->block;
    const int64_t share = (pass->deep * RX_PANEL / RX_NC + pass->tiles - 1) / pass->tiles;
    for (int64_t j = 0; j < pass->width; j += RX_PANEL) {
        const int64_t there = pass->width - j < RX_PANEL ? pass->width - j : RX_PANEL;
        const int in_place = !pass->packs && (block.next || there == RX_PANEL);
        const float *right = in_place ? rx_from(block, 0, j).data : pass->panels + (pass->packs ? j * pass->deep : 0);
        if (block.next && pass->tiles == 1) *ahead = (rx_ahead){right + block.next, RX_NC, share};
        else if (pass->then != NULL)
            *ahead = (rx_ahead){pass->then + j / RX_PANEL * block.next + tile * share * RX_NC, RX_NC, share};
        rx_panel(rows, there, pass->deep, left, right, in_place ? block.row : RX_PANEL, ahead, c + j, job->c_row,
                 pass->more);
    }
}

/* In how many groups of equal remainders the terms of a block are, of which one is the first. */
static int64_t rx_groups(const rx_job *job, int64_t first, int64_t deep) {
    const int64_t groups = job->by_columns;
    return groups > 1 && first % (RX_WORDS * groups) == 0 && deep % (RX_WORDS * groups) == 0 ? groups : 1;
}

/* Rows of A in the order of tiles, [tile][deep][rows], with terms in so many groups. */
static void rx_pack_left(float *left, rx_matrix a, int64_t deep, int64_t m, int64_t tiles, int64_t groups) {
    for (int64_t t = 0, i = 0; t < tiles; t++) {
        const int64_t rows = m / tiles + (t < m % tiles);
        if (groups == 1) rx_pack_rows(left + i * deep, rx_from(a, i, 0), deep, rows);
        else for (int64_t k = 0; k < deep; k += RX_WORDS) {
            const int64_t group = k / RX_WORDS % groups, first = k - group * RX_WORDS + group;
            const rx_matrix own = {rx_from(a, i, first).data, a.row, a.column * groups, a.next};
            rx_pack_rows(left + i * deep + k * rows, own, RX_WORDS, rows);
        }
        i += rows;
    }
}

/* The block of RX_NC columns after one, where there is any: what to ask for while that is in use, where rows are dense. */
static rx_ahead rx_next_block(rx_matrix b, int64_t depth, int64_t n, int64_t kc, int64_t jc) {
    const int last = jc + RX_NC >= n;
    const int64_t k = last ? kc + RX_KC : kc, left = depth - k;
    return (rx_ahead){rx_from(b, k, last ? 0 : jc + RX_NC).data, b.row, left < RX_KC ? left : RX_KC};
}

/* Panels of what is computed column by column, as many columns at once as a panel has. */
static void rx_fill_turned(const rx_job *job, int64_t kc, int64_t deep, int64_t c0, int64_t width, float *panels,
                           float *columns) {
    for (int64_t j = 0; j < width; j += RX_PANEL) {
        const int64_t there = width - j < RX_PANEL ? width - j : RX_PANEL;
        job->fill(job->filler, job->first + kc, deep, c0 + j, there, columns);
        rx_pack(panels + j * deep, (rx_matrix){columns, 1, deep, 0}, deep, there);
    }
}

/* A row of terms in the order in which columns are computed. */
static void rx_row_by_columns(const rx_job *job, rx_matrix a, float *c, int64_t c0, int64_t c1) {
    /* Packing writes up to a vector more. */
    _Alignas(64) float row[RX_DEEP + RX_LANES];
    rx_pack_left(row, a, job->depth, 1, 1, rx_groups(job, job->first, job->depth));
    memset(c + c0, 0, (size_t)(c1 - c0) * sizeof(float));
    job->weigh(job->weigher, job->first, job->depth, c0, c1 - c0, row, 1, c + c0);
}

/* Rows r0 to r1 and columns c0 to c1; nonzero where there is no memory to pack. */
static int rx_block(const rx_job *job, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    const int64_t m = r1 - r0, depth = job->depth;
    int64_t n = c1 - c0;
    /* What is left beside panels, where it is one vector. */
    const int64_t rest = n % RX_PANEL;
    if (rest > 0 && rest <= RX_LANES && m >= RX_TALL / 2 && !job->b.next && !job->fill) {
        n -= rest;
        const rx_matrix a = rx_from(job->a, r0, 0), b = rx_from(job->b, 0, c0 + n);
        if (rx_narrow(m, rest, depth, a, b, job->c + r0 * job->c_row + c0 + n, job->c_row)) return 1;
        rx_finished(job, r0, r1, c0 + n, c1);
        if (n == 0) return 0;
    }
    const int lies = job->fill ? RX_TURNED : job->b.next ? RX_IN_PANELS : job->b.column == 1 ? RX_IN_ROWS : RX_TURNED;
    /* Memory gives rows fast from end to end, not the pieces of many that a tile reads. */
    const int far = lies == RX_IN_ROWS && job->n > RX_LARGE / (int64_t)sizeof(float) / depth;
    const rx_choice choice = rx_choose(m, n, lies);
    const int64_t tiles = choice.tiles, widest = far || (lies == RX_IN_PANELS && tiles > 1) ? RX_NC : choice.block;
    const rx_matrix a = rx_from(job->a, r0, 0), b = rx_from(job->b, 0, c0);
    float *c = job->c + r0 * job->c_row + c0;
    /* Where B stays where it is, its edge is packed; panels have none. */
    const int packs = choice.packs;
    const int64_t most = n < widest ? n : widest, deepest = depth < RX_KC ? depth : RX_KC;
    const int64_t wide = lies == RX_IN_PANELS ? 0 : packs ? (most + RX_PANEL - 1) / RX_PANEL * RX_PANEL : RX_PANEL;
    _Alignas(64) float near[RX_BESIDE];
    const int64_t beside = job->by_columns ? RX_PANEL : 0;
    float *panels = rx_beside(near, (wide + beside + (m + 15) / 16 * 16) * deepest + 16);
    if (panels == NULL) return 1;
    float *columns = panels + wide * deepest, *left = columns + beside * deepest;
    for (int64_t kc = 0; kc < depth; kc += RX_KC) {
        const int64_t deep = depth - kc < RX_KC ? depth - kc : RX_KC;
        rx_pack_left(left, rx_from(a, 0, kc), deep, m, tiles, rx_groups(job, job->first + kc, deep));
        for (int64_t jc = 0; jc < n; jc += widest) {
            const int64_t width = n - jc < widest ? n - jc : widest;
            const rx_matrix block = rx_from(b, kc, jc);
            const int64_t whole = width / RX_PANEL * RX_PANEL;
            if (job->by_columns) rx_fill_turned(job, kc, deep, c0 + jc, width, panels, columns);
            else if (job->fill) job->fill(job->filler, job->first + kc, deep, c0 + jc, width, panels);
            else if (packs) rx_pack(panels, block, deep, width);
            else if (whole < width && !b.next) rx_pack(panels, rx_from(block, 0, whole), deep, width - whole);
            const rx_ahead then = rx_next_block(b, depth, n, kc, jc);
            rx_ahead ahead = far ? then : (rx_ahead){NULL, 0, 0};
            const float *after = b.next && then.rows > 0 ? then.at : NULL;
            const rx_pass pass = {block, panels, after, width, deep, tiles, packs, kc > 0};
            for (int64_t t = 0, i = 0; t < tiles; t++) {
                const int64_t rows = m / tiles + (t < m % tiles);
                rx_strip(job, &pass, t, rows, left + i * deep, &ahead, c + i * job->c_row + jc);
                if (kc + deep == depth) rx_finished(job, r0 + i, r0 + i + rows, c0 + jc, c0 + jc + width);
                i += rows;
            }
        }
    }
    if (panels != near) free(panels);
    return 0;
}

/* Columns of a single row that stay in the first cache while all terms are added to them. */
#define RX_WIDE 4096

/* Rows that are in the order of tiles at once. */
#define RX_GROUP 1024

/* Bytes of B that all rows meet before the next ones are read, where rows are computed one by one. */
#define RX_SHARED (1 << 18)

/* Rows r0 to r1, each as the row of a product of one: columns in blocks, which are cut where panels are. */
static int32_t rx_single_rows(const rx_job *job, int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    const int64_t depth = job->depth > 0 ? job->depth : 1, panels = RX_SHARED / (int64_t)sizeof(float) / depth / RX_PANEL;
    const int64_t shared = panels > 0 ? panels * RX_PANEL : RX_PANEL;
    const int64_t most = job->weigh && !job->by_columns ? RX_WIDE : r1 - r0 > 1 ? shared : c1 - c0;
    if (job->fill && !job->weigh && job->depth > 0) {
        int status = 0;
        for (int64_t i = r0; i < r1 && status == 0; i++) status = rx_block(job, i, i + 1, c0, c1);
        return status;
    }
    for (int64_t j = c0; j < c1; j += most) {
        const int64_t width = c1 - j < most ? c1 - j : most;
        for (int64_t i = r0; i < r1; i++) {
            const rx_matrix left = rx_from(job->a, i, 0);
            float *c = job->c + i * job->c_row;
            if (job->weigh && job->by_columns) rx_row_by_columns(job, left, c, j, j + width);
            else if (job->weigh) {
                memset(c + j, 0, (size_t)width * sizeof(float));
                job->weigh(job->weigher, job->first, job->depth, j, width, left.data, job->a.column, c + j);
            } else {
                const rx_matrix right = rx_from(job->b, 0, j);
                if (right.next) rx_row_of_panels(left, right, c + j, width, job->depth);
                else rx_row(left, right, c + j, width, job->depth);
            }
        }
    }
    rx_finished(job, r0, r1, c0, c1);
    return 0;
}

/* One part; columns are cut between panels, so that edges are where they are without parts. */
static int32_t rx_part(void *context, int64_t part) {
    const rx_job *job = context;
    const int64_t panels = (job->n + RX_PANEL - 1) / RX_PANEL;
    const int64_t row = part / job->column_parts, column = part % job->column_parts;
    const int64_t r0 = rx_begin(job->m, job->row_parts, row), r1 = rx_begin(job->m, job->row_parts, row + 1);
    const int64_t c0 = rx_begin(panels, job->column_parts, column) * RX_PANEL;
    const int64_t end = rx_begin(panels, job->column_parts, column + 1) * RX_PANEL;
    const int64_t c1 = end < job->n ? end : job->n;
    if (job->single || job->depth <= 0) return rx_single_rows(job, r0, r1, c0, c1);
    int status = 0;
    for (int64_t i = r0; i < r1 && status == 0; i += RX_GROUP)
        status = rx_block(job, i, r1 - i < RX_GROUP ? r1 : i + RX_GROUP, c0, c1);
    return status;
}

/* Cuts columns first: each part packs its own, and all read the rows. Gives how many parts there should be. */
static int64_t rx_cut(const rx_threads *threads, rx_job *job) {
    job->row_parts = job->column_parts = 1;
    if (threads == NULL || threads->count < 2) return 1;
    /* An element of B takes the time of some operations to come from memory, however few rows there are. */
    const double charged = job->m < 8 ? 8.0 : (double)job->m;
    const double worth = charged * (double)job->n * (double)job->depth / (16.0 * RX_GRAIN);
    const int64_t panels = (job->n + RX_PANEL - 1) / RX_PANEL;
    int64_t wanted = panels >= 16 * threads->count ? 2 * threads->count : threads->count;
    if (worth < (double)wanted) wanted = (int64_t)worth;
    if (wanted < 2) return 1;
    job->column_parts = panels < wanted ? panels : wanted;
    const int64_t left = wanted / job->column_parts, rows = job->m / (2 * RX_ROWS);
    job->row_parts = rows < 1 ? 1 : rows < left ? rows : left;
    return wanted;
}

/* Sums over many terms: slices of them are summed by different parts, and then added in order. A slice of a product of
   several rows is a block of RX_KC terms, which is added as a whole without slices too; that of a single row
   is RX_DEEP terms, whoever computes it. So no sum tells how many threads there are. */
#define RX_SCRATCH (1 << 20)

typedef struct rx_slices {
    const rx_job *job;
    float *sums;
    int64_t first, terms;
} rx_slices;

static int32_t rx_slice(void *context, int64_t part) {
    const rx_slices *slices = context;
    rx_job job = *slices->job;
    const int64_t parts = job.row_parts * job.column_parts, at = part / parts;
    const int64_t begin = (slices->first + at) * slices->terms, left = job.depth - begin;
    job.depth = left < slices->terms ? left : slices->terms;
    job.a = rx_from(job.a, 0, begin);
    job.b = rx_from(job.b, begin, 0);
    job.first = begin;
    job.c = slices->sums + at * job.m * job.n;
    job.c_row = job.n;
    job.finish = NULL;
    return rx_part(&job, part % parts);
}

/* How many slices are computed at once; 0: the terms stay together. */
static int64_t rx_slices_of(const rx_job *job, int64_t wanted) {
    const int64_t terms = job->single ? RX_DEEP : RX_KC, parts = job->row_parts * job->column_parts;
    if (job->depth <= terms) return 0;
    if (!job->single && (parts >= wanted || job->m > RX_SCRATCH / job->n)) return 0;
    const int64_t all = (job->depth + terms - 1) / terms, room = RX_SCRATCH / job->m / job->n;
    const int64_t useful = 4 * wanted, some = useful < all ? useful : all;
    return some < room ? some : room > 1 ? room : 1;
}

/* The sums of `count` slices, in order, after what was there before. */
static void rx_add(const rx_job *job, const float *sums, int64_t count, int more) {
    const int64_t size = job->m * job->n;
    for (int64_t i = 0; i < job->m; i++) {
        float *restrict to = job->c + i * job->c_row;
        const float *from = sums + i * job->n;
        if (!more) memcpy(to, from, (size_t)job->n * sizeof(float));
        for (int64_t s = more ? 0 : 1; s < count; s++)
            for (int64_t j = 0; j < job->n; j++) to[j] += from[s * size + j];
    }
}

static int rx_sliced(const rx_threads *threads, const rx_job *job, int64_t count) {
    const int64_t terms = job->single ? RX_DEEP : RX_KC, all = (job->depth + terms - 1) / terms;
    float *sums = malloc((size_t)(count * job->m * job->n) * sizeof(float));
    if (sums == NULL) return 1;
    int32_t status = 0;
    for (int64_t first = 0; first < all && status == 0; first += count) {
        const int64_t here = all - first < count ? all - first : count;
        const int64_t parts = here * job->row_parts * job->column_parts;
        rx_slices slices = {job, sums, first, terms};
        if (threads != NULL && parts > 1) status = threads->run(threads, parts, rx_slice, &slices);
        else
            for (int64_t part = 0; part < parts && status == 0; part++) status = rx_slice(&slices, part);
        if (status == 0) rx_add(job, sums, here, first > 0);
    }
    free(sums);
    if (status == 0) rx_finished(job, 0, job->m, 0, job->n);
    return status;
}

/* Where B is in panels of another width than those of tiles: it was laid out for another processor. */
static void rx_by_elements(const rx_job *job) {
    const int64_t width = job->b.row;
    for (int64_t i = 0; i < job->m; i++)
        for (int64_t j = 0; j < job->n; j++) {
            const float *a = job->a.data + i * job->a.row, *b = job->b.data + j / width * job->b.next + j % width;
            float sum = 0.0f;
            for (int64_t k = 0; k < job->depth; k++) sum += a[k * job->a.column] * b[k * width];
            job->c[i * job->c_row + j] = sum;
        }
    rx_finished(job, 0, job->m, 0, job->n);
}

static int rx_run(const rx_threads *threads, rx_job *job) {
    job->single |= job->m == 1;
    const int64_t wanted = rx_cut(threads, job);
    const int64_t slices = rx_slices_of(job, wanted);
    if (slices > 0) return rx_sliced(threads, job, slices);
    const int64_t parts = job->row_parts * job->column_parts;
    return parts > 1 ? threads->run(threads, parts, rx_part, job) : rx_part(job, 0);
}

RX_ROUTINE int rx_product(
    const rx_threads *threads, int64_t m, int64_t n, int64_t depth, rx_matrix a, rx_matrix b, float *c,
    int64_t c_row, rx_finish finish, const void *context) {
    if (m <= 0 || n <= 0) return 0;
    rx_job job = {.m = m, .n = n, .depth = depth, .a = a, .b = b, .c = c, .c_row = c_row, .finish = finish, .context = context};
    if (b.next && b.row != RX_PANEL) return rx_by_elements(&job), 0;
    if (n == 1 && c_row == 1) {
        /* A column is the row of the product of what is turned over. */
        const rx_matrix row = {b.data, 0, b.row, 0}, turned = {a.data, a.column, a.row, 0};
        job = (rx_job){1, m, depth, row, turned, c, m, finish, context, 1, 1, 1};
    }
    return rx_run(threads, &job);
}

RX_ROUTINE int rx_product_rows(
    const rx_threads *threads, int64_t m, int64_t n, int64_t depth, rx_matrix a, rx_matrix b, float *c,
    int64_t c_row, rx_finish finish, const void *context) {
    if (m <= 1 || n <= 1 || (b.next && b.row != RX_PANEL)) return rx_product(threads, m, n, depth, a, b, c, c_row, finish, context);
    rx_job job = {.m = m, .n = n, .depth = depth, .a = a, .b = b, .c = c, .c_row = c_row, .finish = finish, .context = context, .single = 1};
    return rx_run(threads, &job);
}

RX_ROUTINE int rx_product_filled(
    const rx_threads *threads, int64_t m, int64_t n, int64_t depth, rx_matrix a, rx_fill fill, const void *filler,
    rx_weigh weigh, const void *weigher, int by_columns, int single, float *c, int64_t c_row) {
    if (m <= 0 || n <= 0) return 0;
    /* What is not read has no steps. */
    const rx_matrix none = {a.data, 0, 0, 0};
    rx_job job = {m, n, depth, a, none, c, c_row, NULL, NULL, 0, 1, 1, fill, filler, 0, weigh, weigher, by_columns, single};
    return rx_run(threads, &job);
}
