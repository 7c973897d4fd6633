import { LlmTool, ToolParam, ToolProvider } from '@toolloop/core';
import { Expose } from 'class-transformer';
// The three entities name each other. That works because they do so in functions only, and because a method that returns another one returns a
// Promise of it: a plain `Cart` would be read while the modules still load, for the compiler's `design:returntype`.
// oxlint-disable-next-line import/no-cycle
import { Cart } from '../carts/cart.entity.js';
import type { EntityFactory } from '../desk/entity.factory.js';
import { Money } from '../desk/money.js';
// oxlint-disable-next-line import/no-cycle
import { Order } from '../orders/order.entity.js';
import { monthsBefore } from '../desk/clock.js';
import type { CustomerRecord } from '../desk/records.js';

const MONTHS = 12;

/** A customer. Its tools appear when a tool returns it. */
@ToolProvider({ prefix: 'customer', instanceIdProperty: 'id', tenantProperty: 'tenant' })
export class Customer {
  @Expose() readonly id: string;
  @Expose() readonly name: string;
  /** The model may write to the customer; the browser and the audit need no address. */
  @Expose({ groups: ['model'] }) readonly email: string;
  @Expose() readonly city: string;
  @Expose() readonly customerSince: string;

  constructor(
    private readonly tenant: string,
    private readonly record: CustomerRecord,
    private readonly desk: EntityFactory,
  ) {
    this.id = record.id;
    this.name = record.name;
    this.email = record.email;
    this.city = record.city;
    this.customerSince = record.since;
  }

  @LlmTool({
    description: "This customer's average monthly spend over the last 12 months, without cancelled orders.",
    effect: 'read_only',
    output: Money,
    labels: { returns: 'trusted' },
  })
  async getAverageSpend(): Promise<Money> {
    const since = monthsBefore(this.desk.clock.now(), MONTHS);
    const spent = await this.desk.orders.spentSince(this.tenant, this.id, since);
    return Money.sum(spent, this.record.currency).dividedBy(MONTHS);
  }

  @LlmTool({
    description: "This customer's most recent orders, the newest first.",
    effect: 'read_only',
    output: () => [Order],
    labels: { returns: 'trusted' },
  })
  async getRecentOrders(
    @ToolParam('limit', { description: 'How many at most', default: 5, minimum: 1, maximum: 20 }) limit: number,
  ): Promise<Order[]> {
    const records = await this.desk.orders.recentOf(this.tenant, this.id, limit);
    return records.map((record) => this.desk.order(this.tenant, record));
  }

  @LlmTool({
    description: 'Open a new, empty cart for this customer.',
    effect: 'state_change',
    output: () => Cart,
    labels: { returns: 'trusted' },
  })
  async openCart(): Promise<Cart> {
    return this.desk.cart(this.tenant, await this.desk.carts.open(this.tenant, this.id));
  }
}
