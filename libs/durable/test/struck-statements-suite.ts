import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { StatementFault } from './fixtures/statement-faults.js';
import type { Moment, StruckApplication, StruckPort, Verdict } from './fixtures/struck-runs.js';

const FAULTS: readonly (readonly [name: string, fault: StatementFault])[] = [
  ['a delay', { kind: 'delay', ms: 300 }],
  ['57014 by pg_cancel_backend', { kind: 'cancel' }],
  ...['55P03', '25006', '25P02', '42501', '53100', '26000'].map(
    (code) => [code, { kind: 'refuse', code }] as const,
  ),
  [
    '0A000 for an outdated plan',
    { kind: 'refuse', code: '0A000', message: 'cached plan must not change result type' },
  ],
  ['0A000 for something else', { kind: 'refuse', code: '0A000' }],
  ['a connection that is closed before', { kind: 'close', isPerformed: false }],
  ['a connection that is closed after', { kind: 'close', isPerformed: true }],
];
const MOMENTS: readonly Moment[] = ['before the effect', 'at the outcome'];

/**
 * Every port that a durable run asks for statements, and the tools whose calls do. Tenants are the
 * application's own, and accounts are those of sessions.
 */
export const PORTS: readonly StruckPort[] = [
  { port: 'audit', tool: 'put', form: /toolloop\.audit\b/ },
  { port: 'conversations', tool: 'put', form: /toolloop\.conversation_/ },
  { port: 'directives', tool: 'remind', form: /toolloop\.directives/ },
  { port: 'journal', tool: 'put', form: /toolloop\.calls/ },
  { port: 'pending', tool: 'send', form: /toolloop\.pending/ },
  { port: 'policies', tool: 'put', form: /toolloop\.polic/ },
  { port: 'the queue', tool: 'remind', form: /pgboss\.job/ },
  { port: 'runs', tool: 'put', form: /toolloop\.run/ },
  { port: 'transactions', tool: 'book', form: /^\s*(?:begin|commit)|toolloop\.calls/i },
  { port: 'usage', tool: 'put', form: /toolloop\.(?:usage|quotas)/ },
];

/** The ports whose stores are asked from time to time, and not by each run. */
const NOW_AND_THEN: ReadonlySet<string> = new Set(['policies', 'the queue']);

/** Runs every port with every fault at every moment, and prints how often that went which way. */
export function struckStatementsSuite(
  open: () => Promise<{
    readonly application: StruckApplication;
    readonly close: () => Promise<void>;
  }>,
): void {
  let opened: Awaited<ReturnType<typeof open>>;
  const verdicts: (readonly [port: string, moment: Moment, verdict: Verdict])[] = [];

  beforeAll(async () => {
    opened = await open();
  }, 180_000); // on a busy machine a database alone takes a minute
  afterAll(async () => {
    await opened.close();
    process.stdout.write(toTable(verdicts));
  });

  describe.each(PORTS)('a statement of $port', (port) => {
    it.each(
      MOMENTS.flatMap((moment) => FAULTS.map(([name, fault]) => [moment, name, fault] as const)),
    )(
      'loses nothing and does nothing twice %s where it has %s',
      async (moment, _, fault) => {
        const verdict = await opened.application.strike(port, moment, fault);
        verdicts.push([port.port, moment, verdict]);
        expect([
          'right',
          'told',
          ...(NOW_AND_THEN.has(port.port) ? ['not reached'] : []),
        ]).toContain(verdict);
      },
      60_000,
    );
  });
}

const COLUMNS: readonly Verdict[] = ['right', 'told', 'wrong', 'silent', 'not reached'];

function toTable(
  verdicts: readonly (readonly [port: string, moment: Moment, verdict: Verdict])[],
): string {
  const rows = PORTS.flatMap(({ port }) => MOMENTS.map((moment) => toRow(port, moment, verdicts)));
  return [['statement', 'tried', ...COLUMNS].join(' | '), ...rows]
    .map((row) => `${row}\n`)
    .join('');
}

function toRow(
  port: string,
  moment: Moment,
  all: readonly (readonly [port: string, moment: Moment, verdict: Verdict])[],
): string {
  const those = all.filter(([of, at]) => of === port && at === moment);
  const counts = COLUMNS.map(
    (column) => those.filter(([, , verdict]) => verdict === column).length,
  );
  return [`${port}, ${moment}`, those.length, ...counts].join(' | ');
}
