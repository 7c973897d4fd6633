import {
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolError,
  ToolField,
  ToolInput,
  ToolParam,
} from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { MikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { IsOptional, IsString, Matches, MaxLength } from 'class-validator';
import { Customer, Order } from '../desk/entities.js';
import { Mailer, receiptMail } from './mailer.js';

/** The input of `orders__sendReceipt`. */
export class SendReceipt {
  @ToolField({ description: 'Such as o-1024.' }) @Matches(/^o-\d{1,9}$/) orderId!: string;

  @ToolField({ description: 'A sentence for the customer, above the receipt.' })
  @IsOptional()
  @IsString()
  @MaxLength(500)
  note?: string;
}

/** A receipt that was sent. */
export interface SentReceipt {
  readonly messageId: string;
  readonly orderId: string;
}

const READ = 'List orders, count them or add them up, by status and period.';

/** The tools that find orders and mail their receipts. The orders bring their own. */
@ToolResource(Order, {
  namespace: 'orders',
  actions: { read: { description: READ, labels: { returns: 'trusted' } } },
})
export class OrderTools {
  constructor(
    private readonly gateway: MikroOrmGateway,
    private readonly mailer: Mailer,
  ) {}

  @LlmTool({
    description: 'Find one order by its number.',
    effect: 'read_only',
    output: Order,
    labels: { returns: 'trusted' },
  })
  findOrder(
    @ToolParam('orderId', {
      description: 'An order number such as o-1024',
      pattern: String.raw`^o-\d{1,9}$`,
    })
    orderId: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<Order> {
    return Order.get(this.gateway, context, orderId);
  }

  @LlmTool({
    description: "Mail the receipt of an order to its customer's address on file.",
    effect: 'external_side_effect',
    reveal: ['messageId', 'orderId'],
    labels: { returns: 'trusted' },
  })
  async sendReceipt(
    @ToolInput() input: SendReceipt,
    @ToolContext() context: ToolCallContext,
  ): Promise<SentReceipt> {
    const { actor, tenant, idempotencyKey } = context; // the mail is no part of a transaction
    const order = await Order.get(this.gateway, context, input.orderId);
    const customer = await this.gateway.within({ actor, tenant }, (em) =>
      em.findOne(Customer, { tenant, id: order.customerId }),
    );
    if (!customer) throw new ToolError(`The customer of order ${order.id} is no longer on file.`);
    const messageId = await this.mailer.send(
      receiptMail(order, customer.email, input.note),
      idempotencyKey,
    );
    return { messageId, orderId: order.id };
  }
}
