import { Injectable } from '@nestjs/common';
import {
  type EntityContext,
  EntityResolver,
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolEntityResolver,
  ToolError,
  ToolField,
  ToolInput,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { Expose, Type } from 'class-transformer';
import { IsEnum, IsInt, IsOptional, IsString, Matches, Max, MaxLength, Min, ValidateNested } from 'class-validator';
import { EntityFactory, Order } from '../desk/entities.js';
import { OrderStatus } from '../desk/records.js';
import { Mailer, receiptMail } from './mailer.js';

const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** A period of whole days. Either end may be open. */
export class Period {
  @ToolField({ description: 'First day, e.g. 2026-11-01.' })
  @IsOptional()
  @Matches(DAY)
  from?: string;

  @ToolField({ description: 'Last day, itself included.' })
  @IsOptional()
  @Matches(DAY)
  to?: string;
}

/** The input of `orders__listOrders`. */
export class ListOrders {
  @IsOptional() @IsEnum(OrderStatus) status?: OrderStatus;
  @IsOptional() @ValidateNested() @Type(() => Period) placed?: Period;
  @IsOptional() @IsInt() @Min(1) @Max(1000) page: number = 1;
  @IsOptional() @IsInt() @Min(1) @Max(10) pageSize: number = 5;
}

/** A page of orders. The orders in it bring their tools, as if each had been returned alone. */
export class OrderPage {
  @Expose() readonly total: number;
  @Expose() readonly page: number;
  @Expose() readonly pages: number;
  @Expose() @Type(() => Order) readonly orders: readonly Order[];

  constructor(all: readonly Order[], { page, pageSize }: { readonly page: number; readonly pageSize: number }) {
    this.total = all.length;
    this.page = page;
    this.pages = Math.ceil(all.length / pageSize);
    this.orders = all.slice((page - 1) * pageSize, page * pageSize);
  }
}

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

/** The tools that find orders and mail their receipts. The orders bring their own. */
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
    return this.entities.order(context.tenant, await this.entities.orders.get(context.tenant, orderId));
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
    const order = await this.entities.orders.get(context.tenant, input.orderId);
    const customer = await this.entities.customers.find(context.tenant, order.customerId);
    if (!customer) throw new ToolError(`The customer of order ${order.id} is no longer on file.`);
    const messageId = await this.mailer.send(receiptMail(order, customer.email, input.note), context.idempotencyKey);
    return { messageId, orderId: order.id };
  }
}

/** Looks an order up before each call, so that a run that waited for a manager resumes with the order as it is by then, in any process. */
@Injectable()
@ToolEntityResolver(Order)
export class OrderResolver extends EntityResolver<Order> {
  constructor(private readonly entities: EntityFactory) {
    super();
  }

  override async resolve(orderId: string, { tenant }: EntityContext): Promise<Order | undefined> {
    const record = await this.entities.orders.find(tenant, orderId);
    return record && this.entities.order(tenant, record);
  }
}
