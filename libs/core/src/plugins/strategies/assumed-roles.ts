import { ConfigurationError } from '@toolloop/protocol';
import {
  type InjectionResult,
  type ToolInjection,
  type ToolInjectionContext,
  ToolInjectionStrategy,
} from '../../contracts/injection.js';
import { defineOptions } from '../../findings/options.js';
import {
  either,
  FUNCTION,
  listOf,
  listOfOptions,
  needed,
  oneOf,
  TEXT,
} from '../../findings/option-rules.js';
import {
  isTrigger,
  isTriggered,
  listed,
  NAMES,
  type ResultTrigger,
  triggersFound,
} from './triggers.js';

/**
 * Creates a strategy that starts runs with some of their actor's roles and changes them by results.
 *
 * @throws ConfigurationError for wrong options, and for a change without a trigger
 * @example
 * injection: [assumeRoles({ start: ['support'], to: [{ after: 'auth__stepUp', roles: 'all' }] })]
 */
export function assumeRoles(options: AssumedRolesOptions): ToolInjectionStrategy {
  return new AssumedRolesStrategy(options);
}

/** A change of a run's roles. All given conditions must hold for one result. */
export interface RoleChange extends Omit<ResultTrigger, 'after'> {
  /** The tools of which one must have succeeded: declared ids, short names or globs. */
  readonly after?: string | readonly string[];
  /** The roles that the run then has, from those of the actor; `all` for every one. */
  readonly roles: readonly string[] | 'all';
}

/** Options of {@link assumeRoles}. */
export interface AssumedRolesOptions {
  /** The roles that a run starts with, from those of the actor. */
  readonly start: readonly string[];
  /**
   * The changes, of which the first that holds applies. @default none: the run keeps the roles of
   * the start
   */
  readonly to?: readonly RoleChange[];
  /** The name of the strategy in findings. @default 'roles' */
  readonly name?: string;
}

/**
 * Restricts a run to some of its actor's roles, until a result, such as that of a step-up login,
 * allows more of them. A run never has a role that its actor does not have.
 */
class AssumedRolesStrategy extends ToolInjectionStrategy {
  override readonly name: string;
  override readonly startsAs: readonly string[];
  override readonly awaited: readonly string[];
  private readonly changes: readonly (RoleChange & { readonly trigger: ResultTrigger })[];

  constructor(options: AssumedRolesOptions) {
    super();
    OPTIONS.assert(options, 'assumeRoles');
    const { start, to = [], name = 'roles' } = options;
    this.name = name;
    this.startsAs = start;
    this.changes = to.map((change) => Object.assign({}, change, { trigger: triggerOf(change) }));
    this.awaited = to.flatMap(({ after }) => listed(after));
    const aimless = this.changes
      .filter(({ trigger }) => !isTrigger(trigger))
      .map(() => ({
        at: `assumeRoles "${name}"`,
        problem: 'A change of roles has no trigger.',
        remedy: 'Set `after`, `when` or `found`.',
      }));
    if (aimless.length > 0) throw new ConfigurationError(aimless);
  }

  override notice(result: Pick<InjectionResult, 'record' | 'live'>): readonly string[] | undefined {
    return triggersFound(
      new Map(this.changes.map(({ trigger }, index) => [`${index}`, trigger])),
      result,
    );
  }

  override evaluate({ last }: ToolInjectionContext): ToolInjection {
    const change = this.changes.find(({ trigger }, index) =>
      isTriggered(trigger, last, `${index}`),
    );
    return change ? { roles: change.roles } : {};
  }
}

const ROLES = listOf(TEXT, 'a list of roles');
/**
 * The form of a change. Its roles are required, since a missing list would give a run unintended
 * roles.
 */
const CHANGE = defineOptions<RoleChange>({
  after: NAMES,
  when: FUNCTION,
  found: FUNCTION,
  roles: needed(either(ROLES, oneOf('all'))),
});
const OPTIONS = defineOptions<AssumedRolesOptions>({
  start: needed(ROLES),
  to: listOfOptions(CHANGE, 'a list of changes'),
  name: TEXT,
});

function triggerOf({ after, when, found }: RoleChange): ResultTrigger {
  return {
    ...(after !== undefined && { after: listed(after) }),
    ...(when && { when }),
    ...(found && { found }),
  };
}
