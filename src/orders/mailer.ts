import { Injectable } from '@nestjs/common';
import type { Order } from '../desk/entities.js';

/** A letter to a customer. */
export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** The port to a provider of mail. */
export abstract class Mailer {
  /** Delivers once per key, however often it is called, and answers with the message's id. */
  abstract send(mail: Mail, idempotencyKey: string): Promise<string>;
}

/** Keeps the mails instead of sending them. */
@Injectable()
export class OutboxMailer extends Mailer {
  private readonly sent = new Map<string, Mail>();

  get mails(): readonly Mail[] {
    return [...this.sent.values()];
  }

  override send(mail: Mail, idempotencyKey: string): Promise<string> {
    if (!this.sent.has(idempotencyKey)) this.sent.set(idempotencyKey, mail);
    return Promise.resolve(`m-${[...this.sent.keys()].indexOf(idempotencyKey) + 1}`);
  }
}

/** The receipt of an order as a mail. */
export function receiptMail(
  order: Pick<Order, 'id' | 'lines' | 'total' | 'currency'>,
  to: string,
  note?: string,
): Mail {
  const lines = order.lines.map(({ quantity, name }) => `${quantity} x ${name}`);
  const text = [
    ...(note ? [note, ''] : []),
    ...lines,
    `Total: ${order.total} ${order.currency}`,
  ].join('\n');
  return { to, subject: `Receipt for order ${order.id}`, text };
}
