import { Currency } from '../money/currency.js';
import type { OrderDraft, OrderLineRecord } from './order.record.js';
import { OrderStatus } from './order-status.js';

/** An order of the past; how long ago counts from the desk's clock. */
export interface OrderSeed extends OrderDraft {
  readonly id: string;
  readonly status: OrderStatus;
  readonly daysAgo: number;
}

/**
 * What was ordered so far. In the last 12 months John Smith (c-123 of acme) bought for 1116.00 + 1297.80 + 2156.70 + 446.75 + 649.00 = 5666.25,
 * which is 472.19 a month; the order of 400 days ago and the cancelled one do not count. Mary Jones bought for 1058.00 + 928.45 = 1986.45: 165.54 a month.
 */
export const ORDERS: Readonly<Record<string, readonly OrderSeed[]>> = {
  acme: [
    order('o-1001', 'c-123', 400, OrderStatus.Shipped, [line('p-100', 'Walnut desk', 1, 599_00)]),
    order('o-1002', 'c-124', 371, OrderStatus.Shipped, [line('p-101', 'Oak desk', 2, 499_00)]),
    order('o-1004', 'c-123', 330, OrderStatus.Shipped, [line('p-102', 'Task chair', 4, 279_00)]),
    order('o-1005', 'c-125', 289, OrderStatus.Shipped, [line('p-103', 'Monitor arm', 1, 119_90)]),
    order('o-1009', 'c-123', 251, OrderStatus.Shipped, [line('p-101', 'Oak desk', 2, 529_00), line('p-103', 'Monitor arm', 2, 119_90)]),
    order('o-1010', 'c-124', 214, OrderStatus.Shipped, [line('p-102', 'Task chair', 6, 289_50), line('p-106', 'Cable tray', 6, 24_50)]),
    order('o-1011', 'c-128', 200, OrderStatus.Shipped, [line('p-101', 'Oak desk', 2, 529_00)]),
    order('o-1013', 'c-123', 140, OrderStatus.Shipped, [line('p-100', 'Walnut desk', 3, 649_00), line('p-107', 'Standing mat', 3, 69_90)]),
    order('o-1015', 'c-126', 96, OrderStatus.Shipped, [line('p-105', 'Filing cabinet', 8, 175_00)]),
    order('o-1017', 'c-128', 70, OrderStatus.Shipped, [line('p-102', 'Task chair', 3, 289_50), line('p-104', 'Desk lamp', 1, 59_95)]),
    order('o-1018', 'c-123', 61, OrderStatus.Cancelled, [line('p-105', 'Filing cabinet', 2, 175_00)]),
    order('o-1019', 'c-125', 44, OrderStatus.Shipped, [line('p-104', 'Desk lamp', 2, 59_95)]),
    order('o-1021', 'c-123', 23, OrderStatus.Shipped, [line('p-104', 'Desk lamp', 5, 59_95), line('p-106', 'Cable tray', 6, 24_50)]),
    order('o-1022', 'c-124', 5, OrderStatus.Placed, [line('p-107', 'Standing mat', 2, 69_90)]),
    order('o-1024', 'c-123', 2, OrderStatus.Placed, [line('p-100', 'Walnut desk', 1, 649_00)]),
  ],
  globex: [
    order('o-1001', 'c-123', 180, OrderStatus.Shipped, [line('p-102', 'Workbench', 2, 420_00)], Currency.Dollar),
    order('o-1002', 'c-201', 75, OrderStatus.Shipped, [line('p-101', 'Torque wrench', 12, 89_90)], Currency.Dollar),
    order('o-1003', 'c-202', 30, OrderStatus.Shipped, [line('p-103', 'Safety goggles', 40, 12_75)], Currency.Dollar),
    order('o-1004', 'c-123', 3, OrderStatus.Placed, [line('p-100', 'Bench vise', 1, 139_00)], Currency.Dollar),
  ],
};

function order(
  id: string,
  customerId: string,
  daysAgo: number,
  status: OrderStatus,
  ...[lines, currency = Currency.Euro]: [lines: OrderLineRecord[], currency?: Currency]
): OrderSeed {
  return { id, customerId, daysAgo, status, lines, currency };
}

function line(productId: string, name: string, quantity: number, unitCents: number): OrderLineRecord {
  return { productId, name, quantity, unitCents };
}
