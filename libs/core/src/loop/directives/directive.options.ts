import type { Finding } from '../../protocol/errors.js';

/** How an application looks after its directives. */
export interface DirectiveOptions {
  /**
   * Roles of those who see every directive of their tenant, undo what was performed, and decide on what failed. @default whoever asked for a directive does that for
   * their own
   */
  readonly operators?: readonly string[];
  /** Whether this process performs directives, or only asks for them. @default true */
  readonly perform?: boolean;
  /** How many this process performs at once. @default 8 */
  readonly concurrency?: number;
  /** Milliseconds before the second attempt; each further one waits twice as long, less up to half of it by chance. @default 1,000 */
  readonly firstDelayMs?: number;
  /** @default 300,000, five minutes */
  readonly longestDelayMs?: number;
}

export const DEFAULT_DIRECTIVES = {
  perform: true,
  concurrency: 8,
  firstDelayMs: 1_000,
  longestDelayMs: 300_000,
} satisfies DirectiveOptions;

/** What is wrong with the options. */
export function directiveOptionFindings(options: DirectiveOptions, at: string): Finding[] {
  const { concurrency, firstDelayMs, longestDelayMs } = { ...DEFAULT_DIRECTIVES, ...options };
  const known = ['operators', ...Object.keys(DEFAULT_DIRECTIVES)];
  const findings = Object.keys(options)
    .filter((name) => !known.includes(name))
    .map((name) => ({ at, problem: `There is no option "${name}".`, remedy: `There are: ${known.join(', ')}.` }));
  if (!Number.isSafeInteger(concurrency) || concurrency < 1)
    findings.push({ at, problem: `Its concurrency is ${concurrency}.`, remedy: 'Give a whole number, 1 or more.' });
  if (!(firstDelayMs >= 0 && longestDelayMs >= firstDelayMs && longestDelayMs < Infinity))
    findings.push({
      at,
      problem: `It waits from ${firstDelayMs} to ${longestDelayMs} ms.`,
      remedy: 'Give milliseconds, the longest at least the first.',
    });
  if (options.operators?.length === 0)
    findings.push({ at, problem: 'It names no role for its operators.', remedy: 'Name one, or leave the list out.' });
  return findings;
}
