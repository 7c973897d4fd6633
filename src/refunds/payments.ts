import type { Money } from '../money/money.js';

/** Money that goes back to a customer. */
export interface Payout {
  readonly tenant: string;
  readonly orderId: string;
  readonly amount: Money;
}

/** The port to whoever moves money. */
export abstract class Payments {
  /** Pays back once per key, however often it is called; answers with the payment's id. */
  abstract payBack(payout: Payout, idempotencyKey: string): Promise<string>;
}
