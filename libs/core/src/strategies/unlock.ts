import { ConfigurationError, type ToolInvocationRecord } from '@toolloop/protocol';
import {
  type InjectionResult,
  type RunBeginning,
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '../contracts/injection.js';
import type { ToolSelector } from '../contracts/loop-request.js';
import { assertOptions, FUNCTION, type OptionValues, TEXT } from '../findings/options.js';
import { isTrigger, isTriggered, listed, NAME_LIST, NAMES, type ResultTrigger, SELECTORS, triggersFound } from './triggers.js';

/** The name of its trigger. */
const THE_ONE = 'found';

/** What unlocks which tools. At least one trigger, and `tools` or `remove`. */
export interface UnlockOptions extends Omit<ResultTrigger, 'after'> {
  /** Tools, one of which succeeded: declared ids, short names or globs. */
  readonly after?: string | readonly string[];
  /** Tools of the catalog that appear then. Runs start without them. */
  readonly tools?: readonly ToolSelector[];
  /** Tools that go then, and stay away: declared ids, short names or globs, those of entities too. No search and no result brings them back. */
  readonly remove?: readonly string[];
  /** Shown in events. @default 'unlock' */
  readonly name?: string;
}

/** Lets tools appear once a result shows that they make sense, and go once they do not. Policy decides on them all the same. */
export class UnlockStrategy extends ToolInjectionStrategy {
  override readonly name: string;
  override readonly withheld: readonly ToolSelector[];
  override readonly awaited: readonly string[];
  private readonly trigger: ResultTrigger;
  private readonly removed: readonly string[];

  constructor(options: UnlockOptions) {
    super();
    assertOptions(options, OPTIONS, 'unlock');
    const { after, when, found, tools = [], remove = [], name = 'unlock' } = options;
    this.name = name;
    this.withheld = tools;
    this.awaited = [...listed(after), ...remove];
    this.trigger = { ...(after !== undefined && { after: listed(after) }), ...(when && { when }), ...(found && { found }) };
    this.removed = remove;
    this.check();
  }

  override begin({ records, ...beginning }: RunBeginning): ToolInjection {
    const record = records.find((one) => isTriggered(this.trigger, { record: one, live: undefined }));
    return record ? this.change(record, beginning) : {};
  }

  override notice(result: Pick<InjectionResult, 'record' | 'live'>): readonly string[] | undefined {
    return triggersFound(new Map([[THE_ONE, this.trigger]]), result);
  }

  override evaluate({ last, ...context }: ToolInjectionContext): ToolInjection {
    return isTriggered(this.trigger, last, THE_ONE) ? this.change(last.record, context) : {};
  }

  private change({ id }: ToolInvocationRecord, { withheld }: Pick<ToolInjectionContext, 'withheld'>): ToolInjection {
    return {
      add: withheld.named(this.withheld),
      keepAway: this.removed,
      cause: { kind: 'kept_away', after: id },
    };
  }

  private check(): void {
    const at = `unlock "${this.name}"`;
    const findings = [
      ...(isTrigger(this.trigger) ? [] : [{ at, problem: 'It has no trigger.', remedy: 'Give `after`, `when` or `found`.' }]),
      ...(this.withheld.length + this.removed.length > 0
        ? []
        : [{ at, problem: 'It changes nothing.', remedy: 'Give `tools` or `remove`.' }]),
    ];
    if (findings.length > 0) throw new ConfigurationError(findings);
  }
}

const OPTIONS: OptionValues<UnlockOptions> = {
  after: NAMES,
  when: FUNCTION,
  found: FUNCTION,
  tools: SELECTORS,
  remove: NAME_LIST,
  name: TEXT,
};

/** Tools that appear, or go, after a result. Throws `ConfigurationError` where it waits for nothing, changes nothing or says what does not exist. */
export function unlock(options: UnlockOptions): UnlockStrategy {
  return new UnlockStrategy(options);
}
