import { Module } from '@nestjs/common';
import { DeskModule } from '../desk/desk.module.js';
import { LedgerPayments, Payments } from './payments.js';
import { RefundTools } from './refund-tools.js';

@Module({ imports: [DeskModule], providers: [RefundTools, LedgerPayments, { provide: Payments, useExisting: LedgerPayments }] })
export class RefundsModule {}
