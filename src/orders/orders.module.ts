import { Module } from '@nestjs/common';
import { ToolLoopModule } from '@toolloop/core';
import { DeskModule } from '../desk/desk.module.js';
import { Mailer } from './mailer.js';
import { Order } from './order.entity.js';
import { OrderResolver } from './order.resolver.js';
import { OrderTools } from './order.tools.js';
import { OutboxMailer } from './outbox.mailer.js';

@Module({
  imports: [DeskModule, ToolLoopModule.forFeature({ entities: [Order] })],
  providers: [OrderTools, OrderResolver, OutboxMailer, { provide: Mailer, useExisting: OutboxMailer }],
})
export class OrdersModule {}
