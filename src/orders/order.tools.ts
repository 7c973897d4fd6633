import { Injectable } from '@nestjs/common';
import { LlmTool, ToolContext, ToolError, ToolInput, ToolParam, ToolProvider } from '@toolloop/core';
import type { ToolCallContext } from '@toolloop/core';
import { EntityFactory } from '../desk/entity.factory.js';
import { ListOrders } from './list-orders.input.js';
import { Mailer } from './mailer.js';
import { OrderPage } from './order-page.js';
import { Order } from './order.entity.js';
import type { OrderRecord } from './order.record.js';
import { receiptMail } from './receipt.js';
import { SendReceipt } from './send-receipt.input.js';

/** What a sent receipt tells. */
export interface SentReceipt {
  readonly messageId: string;
  readonly orderId: string;
}

@Injectable()
@ToolProvider({ namespace: 'orders' })
export class OrderTools {
  constructor(
    private readonly entities: EntityFactory,
    private readonly mailer: Mailer,
  ) {}

  @LlmTool({ description: 'Find one order by its number.', effect: 'read_only', output: Order, labels: { returns: 'trusted' } })
  async findOrder(
    @ToolParam('orderId', { description: 'An order number such as o-1024', pattern: String.raw`^o-\d{1,9}$` }) orderId: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<Order> {
    return this.entities.order(context.tenant, await this.required(context.tenant, orderId));
  }

  @LlmTool({
    description: 'List orders, the newest first, by status and period.',
    effect: 'read_only',
    output: OrderPage,
    labels: { returns: 'trusted' },
  })
  async listOrders(@ToolInput() input: ListOrders, @ToolContext() context: ToolCallContext): Promise<OrderPage> {
    const { status, placed, ...paging } = input;
    const query = { ...(status && { status }), ...(placed?.from && { from: placed.from }), ...(placed?.to && { to: placed.to }) };
    const records = await this.entities.orders.list(context.tenant, query);
    return new OrderPage(
      records.map((record) => this.entities.order(context.tenant, record)),
      paging,
    );
  }

  @LlmTool({
    description: "Mail the receipt of an order to its customer's address on file.",
    effect: 'external_side_effect',
    reveal: ['messageId', 'orderId'],
    labels: { returns: 'trusted' },
  })
  async sendReceipt(@ToolInput() input: SendReceipt, @ToolContext() context: ToolCallContext): Promise<SentReceipt> {
    const order = await this.required(context.tenant, input.orderId);
    const customer = await this.entities.customers.find(context.tenant, order.customerId);
    if (!customer) throw new ToolError(`The customer of order ${order.id} is no longer on file.`);
    const messageId = await this.mailer.send(receiptMail(order, customer.email, input.note), context.idempotencyKey);
    return { messageId, orderId: order.id };
  }

  private async required(tenant: string, orderId: string): Promise<OrderRecord> {
    const order = await this.entities.orders.find(tenant, orderId);
    if (!order) throw new ToolError(`No order has the number "${orderId}". List the orders with orders__listOrders.`);
    return order;
  }
}
