import type { Finding } from '@toolloop/protocol';
import { BOOLEAN, WHOLE_ABOVE_ZERO, oneOf, wholeFrom } from '../../findings/option-rules.js';
import { defineOptions, ITS, type OptionRule, type OptionTable } from '../../findings/options.js';

/** The way an application looks after its directives. */
export interface DirectiveOptions {
  /**
   * Roles of those who see every directive of their tenant, undo what was performed, and decide on
   * what failed. @default the actor who requested a directive does that for their own
   */
  readonly operators?: readonly string[];
  /**
   * The treatment of tools that have an `external_side_effect` in their call instead of requesting
   * it by a directive: `warn` names them in the log at start, `refuse` keeps the application from
   * starting. Tools of other sources are not meant. @default 'warn'
   */
  readonly immediateEffects?: 'allow' | 'warn' | 'refuse';
  /** Lets this process perform directives; with `false` it only requests them. @default true */
  readonly perform?: boolean;
  /** The most directives that this process performs at once. @default 8 */
  readonly concurrency?: number;
  /**
   * Milliseconds before the second attempt; each further one waits twice as long, less up to half
   * of it by chance. @default 1,000
   */
  readonly firstDelayMs?: number;
  /** @default 300,000, five minutes */
  readonly longestDelayMs?: number;
  /** Milliseconds between the heartbeats of a process that performs a directive. @default 3,000 */
  readonly heartbeatMs?: number;
  /**
   * After how many milliseconds of silence another process takes up what was being performed;
   * several heartbeats. @default 15,000
   */
  readonly takeoverMs?: number;
}

export const DEFAULT_DIRECTIVES = {
  immediateEffects: 'warn',
  perform: true,
  concurrency: 8,
  firstDelayMs: 1_000,
  longestDelayMs: 300_000,
  heartbeatMs: 3_000,
  takeoverMs: 15_000,
} satisfies DirectiveOptions;

/** The longest that a timer of Node's takes; more is one millisecond. */
const INTERVAL = wholeFrom(1, 2 ** 31 - 1);
const DELAY: OptionRule<number> = {
  wanted: 'milliseconds, 0 or more',
  accept: (value) => typeof value === 'number' && value >= 0 && value < Infinity,
};
const ROLES: OptionRule<readonly string[]> = {
  wanted: "a list of roles, such as ['manager'], or leave it out",
  accept: (value) =>
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((role) => typeof role === 'string' && role.trim() !== ''),
  problem: (value) => `Its operators is ${JSON.stringify(value)}.`,
};

/** The options, with the defaults of those that are left out. */
export function directiveOptionsOf(
  options: DirectiveOptions = {},
): DirectiveOptions & typeof DEFAULT_DIRECTIVES {
  return DIRECTIVES.merge(DEFAULT_DIRECTIVES, options);
}

/** The option table of directives. The options may come from a file that no compiler has seen. */
export const DIRECTIVES: OptionTable<DirectiveOptions> = defineOptions<DirectiveOptions>(
  {
    operators: ROLES,
    immediateEffects: oneOf('allow', 'warn', 'refuse'),
    perform: BOOLEAN,
    concurrency: WHOLE_ABOVE_ZERO,
    firstDelayMs: DELAY,
    longestDelayMs: DELAY,
    heartbeatMs: INTERVAL,
    takeoverMs: INTERVAL,
  },
  { wording: ITS, together: timeFindings },
);

function timeFindings(options: DirectiveOptions, at: string): Finding[] {
  const { firstDelayMs, longestDelayMs, heartbeatMs, takeoverMs } = directiveOptionsOf(options);
  const findings: Finding[] = [];
  if (longestDelayMs < firstDelayMs)
    findings.push({
      at,
      problem: `It waits from ${firstDelayMs} to ${longestDelayMs} ms.`,
      remedy: 'Give a longestDelayMs that is at least the firstDelayMs.',
    });
  if (takeoverMs < 2 * heartbeatMs)
    findings.push({
      at,
      problem: `Its takeoverMs of ${takeoverMs} is less than two heartbeats of ${heartbeatMs}.`,
      remedy: 'Give more, or a directive is taken from a process that is still performing it.',
    });
  return findings;
}
