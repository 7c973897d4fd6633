export enum OrderStatus {
  Placed = 'placed',
  Shipped = 'shipped',
  Cancelled = 'cancelled',
}
