import { ConfigurationError, type Finding } from '@toolloop/protocol';
import { type InjectionResult, type ToolInjection, type ToolInjectionContext, ToolInjectionStrategy } from '../contracts/injection.js';
import { either, FUNCTION, listOf, oneOf, optionFindings, type OptionValue, type OptionValues, TEXT } from '../findings/options.js';
import { isTrigger, isTriggered, listed, NAMES, type ResultTrigger, triggersFound } from './triggers.js';

/** After which result a run holds which roles. Everything that is given must hold of one result. */
export interface RoleChange extends Omit<ResultTrigger, 'after'> {
  /** Tools, one of which succeeded: declared ids, short names or globs. */
  readonly after?: string | readonly string[];
  /** Of the roles that the actor has; `all` for every one. */
  readonly roles: readonly string[] | 'all';
}

/** The roles that a run begins with, and how it comes to others. */
export interface AssumedRolesOptions {
  /** Of the roles that the actor has. */
  readonly start: readonly string[];
  /** The first that holds is taken. @default none: it keeps those of the start */
  readonly to?: readonly RoleChange[];
  /** Shown in findings. @default 'roles' */
  readonly name?: string;
}

/**
 * Lets a run hold fewer roles than its actor has, until a result, such as that of a step-up login, shows that it may hold more of them. Roles that the actor does
 * not have are none that a run can hold.
 */
export class AssumedRolesStrategy extends ToolInjectionStrategy {
  override readonly name: string;
  override readonly startsAs: readonly string[];
  override readonly awaited: readonly string[];
  private readonly changes: readonly (RoleChange & { readonly trigger: ResultTrigger })[];

  constructor(options: AssumedRolesOptions) {
    super();
    const findings = shapeFindings(options);
    if (findings.length > 0) throw new ConfigurationError(findings);
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
        remedy: 'Give `after`, `when` or `found`.',
      }));
    if (aimless.length > 0) throw new ConfigurationError(aimless);
  }

  override notice(result: Pick<InjectionResult, 'record' | 'live'>): readonly string[] | undefined {
    return triggersFound(new Map(this.changes.map(({ trigger }, index) => [`${index}`, trigger])), result);
  }

  override evaluate({ last }: ToolInjectionContext): ToolInjection {
    const change = this.changes.find(({ trigger }, index) => isTriggered(trigger, last, `${index}`));
    return change ? { roles: change.roles } : {};
  }
}

const ROLES = listOf(TEXT, 'a list of roles');
const CHANGES: OptionValue = { wanted: 'a list of changes', accept: Array.isArray };
const OPTIONS: OptionValues<AssumedRolesOptions> = { start: ROLES, to: CHANGES, name: TEXT };
const CHANGE: OptionValues<RoleChange> = { after: NAMES, when: FUNCTION, found: FUNCTION, roles: either(ROLES, oneOf('all')) };

/** Of the options and of each change. What is left out, and must not be, would give a run roles that nobody meant. */
function shapeFindings(options: AssumedRolesOptions): Finding[] {
  const own = optionFindings(options, OPTIONS, 'assumeRoles', ['start']);
  if (own.length > 0) return own;
  const { to = [], name = 'roles' } = options;
  return to.flatMap((change) => optionFindings(change, CHANGE, `assumeRoles "${name}"`, ['roles']));
}

/** A run begins with some of its actor's roles and comes to others by results. Throws `ConfigurationError` for a change that waits for nothing. */
export function assumeRoles(options: AssumedRolesOptions): AssumedRolesStrategy {
  return new AssumedRolesStrategy(options);
}

function triggerOf({ after, when, found }: RoleChange): ResultTrigger {
  return { ...(after !== undefined && { after: listed(after) }), ...(when && { when }), ...(found && { found }) };
}
