import type { Money } from '../money/money.js';
import type { Mail } from './mailer.js';
import { totalOf, type OrderRecord } from './order.record.js';

/** The receipt of an order as a mail. */
export function receiptMail(order: OrderRecord, to: string, note?: string): Mail {
  const lines = order.lines.map(({ quantity, name }) => `${quantity} x ${name}`);
  const text = [...(note ? [note, ''] : []), ...lines, `Total: ${inWords(totalOf(order))}`].join('\n');
  return { to, subject: `Receipt for order ${order.id}`, text };
}

function inWords({ amount, currency }: Money): string {
  return `${amount} ${currency}`;
}
