import { Module } from '@nestjs/common';
import { ToolLoopModule } from '@toolloop/core';
import { DeskModule } from '../desk/desk.module.js';
import { Order } from '../desk/entities.js';
import { Mailer, OutboxMailer } from './mailer.js';
import { OrderResolver, OrderTools } from './order-tools.js';

@Module({
  imports: [DeskModule, ToolLoopModule.forFeature({ entities: [Order] })],
  providers: [OrderTools, OrderResolver, OutboxMailer, { provide: Mailer, useExisting: OutboxMailer }],
})
export class OrdersModule {}
