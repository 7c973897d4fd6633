import { Module } from '@nestjs/common';
import { rawTool, ToolLoopModule } from '@toolloop/core';
import { ResourceToolsModule } from '@toolloop/resources';
import { AskPerson, WithdrawCall } from '@toolloop/toolbox';
import { CartTools } from './carts/cart-tools.js';
import { CustomerTools } from './customers/customer-tools.js';
import { DeskModule } from './desk/desk.module.js';
import { Mailer, OutboxMailer } from './orders/mailer.js';
import { OrderTools } from './orders/order-tools.js';
import { ProductTools, quotePostage, scanBarcode } from './products/product-tools.js';
import { LedgerPayments, Payments } from './refunds/payments.js';
import { RefundTools } from './refunds/refund-tools.js';

/** The tools of the desk, its entities, and the ports through which tools act on the world. */
@Module({
  imports: [
    DeskModule,
    ResourceToolsModule.forFeature([CustomerTools, ProductTools, OrderTools, CartTools], {
      providers: [OutboxMailer, { provide: Mailer, useExisting: OutboxMailer }],
    }),
    ToolLoopModule.forFeature({
      tools: [scanBarcode, quotePostage, rawTool(AskPerson), rawTool(WithdrawCall)],
    }),
  ],
  providers: [RefundTools, LedgerPayments, { provide: Payments, useExisting: LedgerPayments }],
})
export class ToolsModule {}
