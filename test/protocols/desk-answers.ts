import { expect } from '@jest/globals';
import { offline } from '@toolloop/offline';
import { OutboxMailer } from '../../src/orders/mailer.js';
import { serve, type ServedDesk } from '../demo/served-desk.js';
import { DESK, ScenarioModel, type Told } from './scenarios.js';

/**
 * The demo as it is, with its rule-based model, to which the two questions are added that it has no
 * way for.
 */
export function serveDesk(): Promise<ServedDesk> {
  return serve({ model: new ScenarioModel(DESK, offline()) });
}

/** The receipts that the desk has mailed: one for each yes. */
export function mailsOf({ app }: ServedDesk): number {
  return app.get(OutboxMailer).mails.length;
}

const MAILED = { text: 'That is settled.', calls: ['crm__read', 'orders__sendReceipt'] };

/**
 * The answers of the desk in few words: what is said, and the calls that are shown. The clients of
 * the scenarios hold the rest.
 */
export const DESK_ANSWERS = {
  text: { text: expect.stringContaining('I am a rule-based offline model'), calls: [] },
  call: {
    text: expect.stringContaining('- Desk lamp (p-104): in stock 3'),
    calls: ['catalog__read'],
  },
  injected: {
    text: "John Smith's average spend is 472.19 EUR.",
    calls: ['crm__searchCustomers', 'customer_c-123_getAverageSpend'],
  },
  failedCall: {
    text: expect.stringContaining('“cancel” failed: Order o-1021 has been shipped'),
    calls: ['orders__findOrder', 'order_o-1021_cancel'],
  },
  failedRun: { text: '', calls: [] },
  approved: MAILED,
  denied: MAILED,
  question: { text: 'The quote postage: postage cents 1049.', calls: ['parcels__quotePostage'] },
  clientTool: { text: 'The scan barcode is 4006381333931.', calls: ['device__scanBarcode'] },
} as const;

/**
 * Leaves of what a client understood the text and the names of the calls; a play that went wrong,
 * or that is about something else, stays as it is.
 */
export function briefly(told: Told): Record<string, unknown> {
  return Object.fromEntries(Object.entries(told).map(([scenario, one]) => [scenario, brief(one)]));
}

function brief(one: unknown): unknown {
  const { text, calls, done } = one as {
    readonly text?: string;
    readonly calls?: readonly (readonly string[])[];
    readonly done?: unknown;
  };
  if (done !== undefined) return brief(done);
  return calls === undefined ? one : { text, calls: calls.map(([name]) => name) };
}
