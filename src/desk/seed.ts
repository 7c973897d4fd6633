import { daysBefore, TODAY } from './clock.js';
import { OrderStatus } from './entities.js';
import { type PricedQuantity, totalOf } from './items.js';
import { Currency, Money } from './money.js';
import { wordsOf } from './words.js';

type Tenants<Row> = Readonly<Record<string, readonly Row[]>>;

/** The rows of a new database, by table and with the names of their columns. */
export function sampleRows(): Readonly<
  Record<'customers' | 'products' | 'orders', readonly object[]>
> {
  return { customers: rowsOf(CUSTOMERS), products: rowsOf(PRODUCTS), orders: rowsOf(ORDERS) };
}

function rowsOf(tenants: Tenants<object>): readonly object[] {
  return Object.entries(tenants).flatMap(([tenant, rows]) =>
    rows.map((row) => ({ tenant, ...row })),
  );
}

/** The tenants' customers. Both tenants have a c-123, and they are two people. */
const CUSTOMERS: Tenants<object> = {
  acme: [
    european('c-123', 'John Smith', 'john.smith@example.com', 'Dublin', '2023-04-17'),
    european('c-124', 'Jane Doe', 'jane.doe@example.com', 'Vienna', '2022-09-02'),
    european('c-125', 'Laura Smith', 'laura.smith@example.com', 'Lyon', '2025-01-30'),
    european('c-126', 'Omar Haddad', 'omar.haddad@example.com', 'Antwerp', '2024-06-11'),
    european('c-128', 'Mary Jones', 'mary.jones@example.com', 'Bath', '2024-11-04'),
    european('c-127', 'Zoë Kamiński', 'zoe.kaminski@example.com', 'Kraków', '2026-08-25'),
  ],
  globex: [
    american('c-123', 'Priya Natarajan', 'priya@example.org', 'Austin', '2024-02-05'),
    american('c-201', 'Chen Wei', 'chen.wei@example.org', 'Seattle', '2023-11-20'),
    american('c-202', 'María García', 'maria.garcia@example.org', 'El Paso', '2025-05-14'),
  ],
};

function european(
  ...[id, name, email, city, since]: [
    id: string,
    name: string,
    email: string,
    city: string,
    since: string,
  ]
): object {
  return {
    id,
    name,
    search_name: searchable(name),
    email,
    city,
    customer_since: since,
    currency: Currency.Euro,
  };
}

function american(...customer: Parameters<typeof european>): object {
  return { ...european(...customer), currency: Currency.Dollar };
}

function searchable(name: string): string {
  return wordsOf(name)
    .map((word) => ` ${word}`)
    .join('');
}

/** The tenants' articles. Both number them from p-100: an id means nothing without its tenant. */
const PRODUCTS: Tenants<object> = {
  acme: [
    euros('p-100', 'Walnut desk', 649_00, 6),
    euros('p-101', 'Oak desk', 529_00, 11),
    euros('p-102', 'Task chair', 289_50, 24),
    euros('p-103', 'Monitor arm', 119_90, 40),
    euros('p-104', 'Desk lamp', 59_95, 3),
    euros('p-105', 'Filing cabinet', 175_00, 0),
    euros('p-106', 'Cable tray', 24_50, 120),
    euros('p-107', 'Standing mat', 69_90, 17),
  ],
  globex: [
    dollars('p-100', 'Bench vise', 139_00, 9),
    dollars('p-101', 'Torque wrench', 89_90, 30),
    dollars('p-102', 'Workbench', 420_00, 4),
    dollars('p-103', 'Safety goggles', 12_75, 200),
    dollars('p-104', 'Desk lamp', 44_00, 0),
  ],
};

function euros(
  id: string,
  name: string,
  cents: number,
  inStock: number,
  currency = Currency.Euro,
): object {
  return { id, name, price: new Money(cents, currency).amount, currency, in_stock: inStock };
}

function dollars(id: string, name: string, cents: number, inStock: number): object {
  return euros(id, name, cents, inStock, Currency.Dollar);
}

/**
 * The orders so far. In the last 12 months John Smith (c-123 of acme) bought for 1116.00 + 1297.80
 * + 2156.70 + 446.75 + 649.00 = 5666.25, which is 472.19 a month; the order of 400 days ago and the
 * cancelled one do not count. Mary Jones bought for 1058.00 + 928.45 = 1986.45: 165.54 a month.
 */
const ORDERS: Tenants<object> = {
  acme: [
    order('o-1001', 'c-123', 400, OrderStatus.Shipped, [line('p-100', 'Walnut desk', 1, 599_00)]),
    order('o-1002', 'c-124', 371, OrderStatus.Shipped, [line('p-101', 'Oak desk', 2, 499_00)]),
    order('o-1004', 'c-123', 330, OrderStatus.Shipped, [line('p-102', 'Task chair', 4, 279_00)]),
    order('o-1005', 'c-125', 289, OrderStatus.Shipped, [line('p-103', 'Monitor arm', 1, 119_90)]),
    order('o-1009', 'c-123', 251, OrderStatus.Shipped, [
      line('p-101', 'Oak desk', 2, 529_00),
      line('p-103', 'Monitor arm', 2, 119_90),
    ]),
    order('o-1010', 'c-124', 214, OrderStatus.Shipped, [
      line('p-102', 'Task chair', 6, 289_50),
      line('p-106', 'Cable tray', 6, 24_50),
    ]),
    order('o-1011', 'c-128', 200, OrderStatus.Shipped, [line('p-101', 'Oak desk', 2, 529_00)]),
    order('o-1013', 'c-123', 140, OrderStatus.Shipped, [
      line('p-100', 'Walnut desk', 3, 649_00),
      line('p-107', 'Standing mat', 3, 69_90),
    ]),
    order('o-1015', 'c-126', 96, OrderStatus.Shipped, [line('p-105', 'Filing cabinet', 8, 175_00)]),
    order('o-1017', 'c-128', 70, OrderStatus.Shipped, [
      line('p-102', 'Task chair', 3, 289_50),
      line('p-104', 'Desk lamp', 1, 59_95),
    ]),
    order('o-1018', 'c-123', 61, OrderStatus.Cancelled, [
      line('p-105', 'Filing cabinet', 2, 175_00),
    ]),
    order('o-1019', 'c-125', 44, OrderStatus.Shipped, [line('p-104', 'Desk lamp', 2, 59_95)]),
    order('o-1021', 'c-123', 23, OrderStatus.Shipped, [
      line('p-104', 'Desk lamp', 5, 59_95),
      line('p-106', 'Cable tray', 6, 24_50),
    ]),
    order('o-1022', 'c-124', 5, OrderStatus.Placed, [line('p-107', 'Standing mat', 2, 69_90)]),
    order('o-1024', 'c-123', 2, OrderStatus.Placed, [line('p-100', 'Walnut desk', 1, 649_00)]),
  ],
  globex: [
    order(
      'o-1001',
      'c-123',
      180,
      OrderStatus.Shipped,
      [line('p-102', 'Workbench', 2, 420_00)],
      Currency.Dollar,
    ),
    order(
      'o-1002',
      'c-201',
      75,
      OrderStatus.Shipped,
      [line('p-101', 'Torque wrench', 12, 89_90)],
      Currency.Dollar,
    ),
    order(
      'o-1003',
      'c-202',
      30,
      OrderStatus.Shipped,
      [line('p-103', 'Safety goggles', 40, 12_75)],
      Currency.Dollar,
    ),
    order(
      'o-1004',
      'c-123',
      3,
      OrderStatus.Placed,
      [line('p-100', 'Bench vise', 1, 139_00)],
      Currency.Dollar,
    ),
  ],
};

function order(
  id: string,
  customerId: string,
  daysAgo: number,
  status: OrderStatus,
  ...[lines, currency = Currency.Euro]: [lines: readonly PricedQuantity[], currency?: Currency]
): object {
  const total = totalOf(lines, currency).amount;
  return {
    id,
    customer_id: customerId,
    placed_on: daysBefore(TODAY, daysAgo),
    status,
    currency,
    total,
    lines,
  };
}

function line(
  productId: string,
  name: string,
  quantity: number,
  unitCents: number,
): PricedQuantity {
  return { productId, name, quantity, unitCents };
}
