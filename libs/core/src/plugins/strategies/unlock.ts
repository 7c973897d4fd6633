import { ConfigurationError, type ToolInvocationRecord } from '@toolloop/protocol';
import {
  type InjectionResult,
  type RunBeginning,
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '../../contracts/injection.js';
import { SELECTORS, type ToolSelector } from '../../contracts/tool-selector.js';
import { defineOptions } from '../../findings/options.js';
import { FUNCTION, TEXT } from '../../findings/option-rules.js';
import {
  isTrigger,
  isTriggered,
  listed,
  NAME_LIST,
  NAMES,
  type ResultTrigger,
  triggersFound,
} from './triggers.js';

/**
 * Creates a strategy that adds or removes tools after a result.
 *
 * @throws ConfigurationError for wrong options, and without a trigger or a change
 * @example
 * injection: [unlock({ after: 'cart__open', tools: ['cart__checkout'] })]
 */
export function unlock(options: UnlockOptions): ToolInjectionStrategy {
  return new UnlockStrategy(options);
}

/** Options of {@link unlock}: at least one condition, and `tools` or `remove`. */
export interface UnlockOptions extends Omit<ResultTrigger, 'after'> {
  /** The tools of which one must have succeeded: declared ids, short names or globs. */
  readonly after?: string | readonly string[];
  /** The tools of the catalog that are added then. Runs start without them. */
  readonly tools?: readonly ToolSelector[];
  /**
   * The tools that are removed then, for good: declared ids, short names or globs, also of
   * entities. No search and no result adds them again.
   */
  readonly remove?: readonly string[];
  /** The name of the strategy in events. @default 'unlock' */
  readonly name?: string;
}

/** The name of the only trigger. */
const THE_ONE = 'found';

/**
 * Adds tools once a result shows that they are useful, or removes them once they are not. Policy
 * decides about them all the same.
 */
class UnlockStrategy extends ToolInjectionStrategy {
  override readonly name: string;
  override readonly withheld: readonly ToolSelector[];
  override readonly awaited: readonly string[];
  private readonly trigger: ResultTrigger;
  private readonly removed: readonly string[];

  constructor(options: UnlockOptions) {
    super();
    OPTIONS.assert(options, 'unlock');
    const { after, when, found, tools = [], remove = [], name = 'unlock' } = options;
    this.name = name;
    this.withheld = tools;
    this.awaited = [...listed(after), ...remove];
    this.trigger = {
      ...(after !== undefined && { after: listed(after) }),
      ...(when && { when }),
      ...(found && { found }),
    };
    this.removed = remove;
    this.check();
  }

  override begin({ records, ...beginning }: RunBeginning): ToolInjection {
    const record = records.find((one) =>
      isTriggered(this.trigger, { record: one, live: undefined }),
    );
    return record ? this.change(record, beginning) : {};
  }

  override notice(result: Pick<InjectionResult, 'record' | 'live'>): readonly string[] | undefined {
    return triggersFound(new Map([[THE_ONE, this.trigger]]), result);
  }

  override evaluate({ last, ...context }: ToolInjectionContext): ToolInjection {
    return isTriggered(this.trigger, last, THE_ONE) ? this.change(last.record, context) : {};
  }

  private change(
    { id }: ToolInvocationRecord,
    { withheld }: Pick<ToolInjectionContext, 'withheld'>,
  ): ToolInjection {
    return {
      add: withheld.named(this.withheld),
      withhold: this.removed,
      cause: { kind: 'withheld', after: id },
    };
  }

  private check(): void {
    const at = `unlock "${this.name}"`;
    const findings = [
      ...(isTrigger(this.trigger)
        ? []
        : [{ at, problem: 'It has no trigger.', remedy: 'Set `after`, `when` or `found`.' }]),
      ...(this.withheld.length + this.removed.length > 0
        ? []
        : [{ at, problem: 'It changes nothing.', remedy: 'Set `tools` or `remove`.' }]),
    ];
    if (findings.length > 0) throw new ConfigurationError(findings);
  }
}

const OPTIONS = defineOptions<UnlockOptions>({
  after: NAMES,
  when: FUNCTION,
  found: FUNCTION,
  tools: SELECTORS,
  remove: NAME_LIST,
  name: TEXT,
});
