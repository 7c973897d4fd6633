import type { Finding } from '@toolloop/protocol';

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
  /** How often a process tells that it is still at what it performs. @default 3,000 */
  readonly heartbeatMs?: number;
  /** After how many milliseconds of silence another process takes up what was being performed; several heartbeats. @default 15,000 */
  readonly takeoverMs?: number;
}

export const DEFAULT_DIRECTIVES = {
  perform: true,
  concurrency: 8,
  firstDelayMs: 1_000,
  longestDelayMs: 300_000,
  heartbeatMs: 3_000,
  takeoverMs: 15_000,
} satisfies DirectiveOptions;

/** The longest that a timer of Node's takes; more is one millisecond. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

interface OptionRule {
  readonly holds: (value: unknown) => boolean;
  readonly remedy: string;
}

const AMOUNT: OptionRule = {
  holds: (value) => typeof value === 'number' && Number.isSafeInteger(value) && value >= 1,
  remedy: 'Give a whole number, 1 or more.',
};
const DELAY: OptionRule = {
  holds: (value) => typeof value === 'number' && value >= 0 && value < Infinity,
  remedy: 'Give milliseconds, 0 or more.',
};
const INTERVAL: OptionRule = {
  holds: (value) => AMOUNT.holds(value) && Number(value) <= LONGEST_TIMER_MS,
  remedy: `Give whole milliseconds, 1 to ${LONGEST_TIMER_MS}.`,
};

const RULES: Readonly<Record<keyof DirectiveOptions, OptionRule>> = {
  operators: {
    holds: (value) => Array.isArray(value) && value.length > 0 && value.every((role) => typeof role === 'string' && role.trim() !== ''),
    remedy: "Give a list of roles, such as ['manager'], or leave it out.",
  },
  perform: { holds: (value) => typeof value === 'boolean', remedy: 'Give true or false, or leave it out.' },
  concurrency: AMOUNT,
  firstDelayMs: DELAY,
  longestDelayMs: DELAY,
  heartbeatMs: INTERVAL,
  takeoverMs: INTERVAL,
};

/** What is wrong with the options, which may come from a file that no compiler has seen. */
export function directiveOptionFindings(options: unknown, at: string): Finding[] {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    return [{ at, problem: `They are ${shown(options)}.`, remedy: `Give an object: ${Object.keys(RULES).join(', ')}.` }];
  const rules = new Map(Object.entries(RULES));
  const findings = Object.entries(options).flatMap(([name, value]: [string, unknown]): Finding[] => {
    const rule = rules.get(name);
    if (!rule) return [{ at, problem: `There is no option "${name}".`, remedy: `There are: ${[...rules.keys()].join(', ')}.` }];
    return rule.holds(value) ? [] : [{ at, problem: `Its ${name} is ${shown(value)}.`, remedy: rule.remedy }];
  });
  return findings.length > 0 ? findings : timeFindings({ ...DEFAULT_DIRECTIVES, ...options }, at);
}

/** What does not fit together. */
function timeFindings({ firstDelayMs, longestDelayMs, heartbeatMs, takeoverMs }: typeof DEFAULT_DIRECTIVES, at: string): Finding[] {
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

/** As a developer wrote it. */
function shown(value: unknown): string {
  const text =
    typeof value === 'object' && value !== null ? JSON.stringify(value) : typeof value === 'string' ? `"${value}"` : String(value);
  return text.slice(0, 80);
}
