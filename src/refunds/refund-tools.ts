import { Injectable } from '@nestjs/common';
import {
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolError,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import type { PerformedDirective } from '@toolloop/core/directives';
import { isRecord } from '@toolloop/protocol';
import { MikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { Order } from '../desk/entities.js';
import { Payments } from './payments.js';

/** A refund that was paid. */
export interface PaidRefund {
  readonly paymentId: string;
  readonly orderId: string;
  readonly amount: string;
}

/** The tool that refunds orders. It only requests a refund: the directive runner pays it later. */
@Injectable()
@ToolProvider({
  namespace: 'refunds',
  instructions:
    'A refund is requested at once and paid later: say that it was requested, never that it was paid.',
})
export class RefundTools {
  constructor(
    private readonly gateway: MikroOrmGateway,
    private readonly payments: Payments,
  ) {}

  /**
   * Refunds an order once, however many users ask and however often: the payment knows a repetition
   * by its key.
   */
  @LlmTool({
    description: 'Refund an order: pay back what it cost. It is requested here, and paid later.',
    effect: 'external_side_effect',
    reveal: ['paymentId', 'orderId', 'amount'],
    labels: { returns: 'trusted' },
    preview: 'previewRefund',
    presentation: {
      label: 'Refund an order',
      running: 'Requesting the refund',
      done: 'Refund requested',
      icon: 'undo',
      tone: 'caution',
      confirm: 'Pay this money back?',
    },
    directive: {
      type: 'order.refund',
      subject: '{orderId}',
      key: 'whole',
      preview: 'required',
      compensate: 'recallRefund',
      maybeRan: 'repeat',
    },
  })
  async refundOrder(
    @ToolParam('orderId', {
      description: 'An order number such as o-1024',
      pattern: String.raw`^o-\d{1,9}$`,
    })
    orderId: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<PaidRefund> {
    const amount = (await Order.get(this.gateway, context, orderId)).getTotal();
    const paymentId = await this.payments.payBack(
      { tenant: context.tenant, orderId, amount },
      context.idempotencyKey,
    );
    return { paymentId, orderId, amount: `${amount.amount} ${amount.currency}` };
  }

  /** Undoes a refund that was paid: the money is called back. */
  async recallRefund(_input: unknown, { result }: PerformedDirective): Promise<void> {
    const paymentId = isRecord(result) ? result['paymentId'] : undefined;
    if (typeof paymentId !== 'string')
      throw new ToolError('It is not known which payment this was.');
    await this.payments.recall(paymentId);
  }

  async previewRefund(
    { orderId }: { readonly orderId: string },
    context: ToolCallContext,
  ): Promise<string> {
    const { amount, currency } = (await Order.get(this.gateway, context, orderId)).getTotal();
    return `Refund ${amount} ${currency} for order ${orderId}`;
  }
}
