import { entityTool, tool, type TestTool } from './loop.js';

interface Order {
  readonly id: string;
  readonly placedAt: string;
  readonly status: string;
}

const customers = [
  { id: 'c-123', name: 'John Smith', email: 'john@example.com' },
  { id: 'c-124', name: 'Jane Doe', email: 'jane@example.com' },
  { id: 'c-125', name: 'Johnny Smithers', email: 'js@example.com' },
];
const spends = new Map([
  ['c-123', 450],
  ['c-124', 99.5],
  ['c-125', 7],
]);
const orders: readonly Order[] = [
  { id: 'o-100', placedAt: '2026-01-02', status: 'open' },
  { id: 'o-101', placedAt: '2026-02-02', status: 'shipped' },
];

function orderTools(order: Order): TestTool[] {
  const items = [
    { sku: 'p-1', quantity: 2 },
    { sku: 'p-2', quantity: 1 },
  ];
  return [
    entityTool(
      ['order', order.id, 'getItems'],
      { description: 'The line items of this order.' },
      () => items,
    ),
    entityTool(
      ['order', order.id, 'cancel'],
      { description: 'Cancel this order.', effect: 'state_change' },
      () => ({
        ...order,
        status: 'cancelled',
      }),
    ),
  ];
}

function customerTools({ id }: { readonly id: string }): TestTool[] {
  const limit = { type: 'integer' as const, default: 10, minimum: 1, maximum: 50 };
  const recent = {
    description: "This customer's most recent orders.",
    properties: { limit },
    required: [],
  };
  return [
    entityTool(
      ['customer', id, 'getAverageSpend'],
      { description: "This customer's average monthly spend." },
      () => ({
        amount: spends.get(id) ?? 0,
        currency: 'EUR',
      }),
    ),
    entityTool(['customer', id, 'getRecentOrders'], recent, () => ({
      value: orders.map(({ id: orderId, placedAt, status }) => ({ id: orderId, placedAt, status })),
      tools: orders.flatMap(orderTools),
    })),
  ];
}

const search = tool(
  'crm__searchCustomers',
  {
    description: 'Find customers by name.',
    properties: { name: { type: 'string' }, limit: { type: 'integer', minimum: 1 } },
    required: ['name'],
  },
  ({ name }) => {
    const words = (name as string).toLowerCase().split(' ');
    const found = customers.filter((customer) =>
      words.some((word) => customer.name.toLowerCase().includes(word)),
    );
    const hinted = found.map(({ id, name: fullName, email }) => ({
      id,
      name: fullName,
      email,
      _availableOperations: ['getAverageSpend', 'getRecentOrders'],
    }));
    return { value: hinted, tools: found.flatMap(customerTools) };
  },
);

const getOrder = tool(
  'orders__getOrder',
  { description: 'One order by its id.', properties: { orderId: { type: 'string' } } },
  ({ orderId }) => {
    const found = orders.filter(({ id }) => id === orderId);
    return { value: found[0] ? { ...found[0] } : null, tools: found.flatMap(orderTools) };
  },
);

/** A desk with two service tools; customers and orders bring their own. */
export const orderDesk: readonly TestTool[] = [search, getOrder];
