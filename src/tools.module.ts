import { Module } from '@nestjs/common';
import { ToolLoopModule } from '@toolloop/core';
import { CartTools } from './carts/cart-tools.js';
import { CustomerResolver, CustomerTools } from './customers/customer-tools.js';
import { DeskModule } from './desk/desk.module.js';
import { Cart, Customer, Order } from './desk/entities.js';
import { Mailer, OutboxMailer } from './orders/mailer.js';
import { OrderResolver, OrderTools } from './orders/order-tools.js';
import { ProductTools, quotePostage, scanBarcode } from './products/product-tools.js';
import { LedgerPayments, Payments } from './refunds/payments.js';
import { RefundTools } from './refunds/refund-tools.js';

/** The tools of the desk, its entities, and the ports through which tools act on the world. */
@Module({
  imports: [DeskModule, ToolLoopModule.forFeature({ entities: [Customer, Order, Cart], tools: [scanBarcode, quotePostage] })],
  providers: [
    CustomerTools,
    CustomerResolver,
    ProductTools,
    OrderTools,
    OrderResolver,
    OutboxMailer,
    { provide: Mailer, useExisting: OutboxMailer },
    CartTools,
    RefundTools,
    LedgerPayments,
    { provide: Payments, useExisting: LedgerPayments },
  ],
})
export class ToolsModule {}
