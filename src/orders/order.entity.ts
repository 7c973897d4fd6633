import { LlmTool, ToolError, ToolProvider } from '@toolloop/core';
import { Expose } from 'class-transformer';
// oxlint-disable-next-line import/no-cycle -- see customer.entity.ts
import { Customer } from '../customers/customer.entity.js';
import type { EntityFactory } from '../desk/entity.factory.js';
import { Money } from '../desk/money.js';
import { OrderLine } from '../desk/order-lines.js';
import { OrderStatus, totalOf, type OrderRecord } from '../desk/records.js';

/** An order as it was when it was looked up, which its resolver does before each call. Its tools appear when a tool returns it. */
@ToolProvider({ prefix: 'order', instanceIdProperty: 'id', tenantProperty: 'tenant' })
export class Order {
  @Expose() readonly id: string;
  @Expose() readonly customerId: string;
  @Expose() readonly placedOn: string;
  @Expose() readonly status: OrderStatus;

  constructor(
    private readonly tenant: string,
    private readonly record: OrderRecord,
    private readonly desk: EntityFactory,
  ) {
    this.id = record.id;
    this.customerId = record.customerId;
    this.placedOn = record.placedOn;
    this.status = record.status;
  }

  @LlmTool({ description: 'What this order costs in total.', effect: 'read_only', output: Money, labels: { returns: 'trusted' } })
  getTotal(): Money {
    return totalOf(this.record);
  }

  @LlmTool({ description: 'The articles of this order.', effect: 'read_only', output: [OrderLine], labels: { returns: 'trusted' } })
  getLines(): OrderLine[] {
    return this.record.lines.map((line) => new OrderLine(line, this.record.currency));
  }

  @LlmTool({ description: 'The customer who placed this order.', effect: 'read_only', output: () => Customer })
  async getCustomer(): Promise<Customer> {
    const record = await this.desk.customers.find(this.tenant, this.customerId);
    if (!record) throw new ToolError('The customer of this order is no longer on file.');
    return this.desk.customer(this.tenant, record);
  }

  @LlmTool({
    description: 'Cancel this order and put its articles back in stock. Shipped orders cannot be cancelled.',
    effect: 'state_change',
    output: () => Order,
    labels: { returns: 'trusted' },
  })
  async cancel(): Promise<Order> {
    const cancelled = await this.desk.orders.change(this.tenant, this.id, toCancelled);
    if (!cancelled) throw new ToolError(`Order ${this.id} is no longer on file.`);
    await this.desk.products.putBack(this.tenant, cancelled.lines);
    return this.desk.order(this.tenant, cancelled);
  }
}

/** Decides by the order as it is now, not as it was when the model saw it. */
function toCancelled(order: OrderRecord): OrderRecord {
  if (order.status === OrderStatus.Shipped) {
    throw new ToolError(`Order ${order.id} has been shipped and cannot be cancelled. Offer a return instead.`);
  }
  if (order.status === OrderStatus.Cancelled) throw new ToolError(`Order ${order.id} is cancelled already.`);
  return { ...order, status: OrderStatus.Cancelled };
}
