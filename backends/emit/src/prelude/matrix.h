/* One matrix: element (i, j) is at i * row + j * column; or, where `next` is not 0, in panels of `row` columns that are
   `next` apart: at j / row * next + i * row + j % row, all of the last panel being there. */
typedef struct rx_matrix {
    const float *data;
    int64_t row, column, next;
} rx_matrix;

/* The matrix from row i and column j on, between panels where it has any. */
static inline rx_matrix rx_from(rx_matrix b, int64_t i, int64_t j) {
    b.data += i * b.row + (b.next ? j / RX_PANEL * b.next : j * b.column);
    return b;
}
