import type { Type } from '@nestjs/common';
import { type Finding, TOOL_EFFECTS, type ToolEffect, type ToolLabels } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import 'reflect-metadata';
import type { RunContext, ToolCallContext } from '../contracts/tool-call.js';
import {
  type PerformedDirective,
  TOOL_SETTINGS,
  type ToolDirective,
  type ToolSettings,
  type ToolWord,
} from '../contracts/tool.js';
import {
  BOOLEAN,
  CHECKED_BY_USE,
  defineOptions,
  either,
  FUNCTION,
  ITS,
  listOf,
  needed,
  oneOf,
  optionsOf,
  type OptionRule,
  TEXT,
  wholeFrom,
} from '../findings/options.js';

/** A class, a list of it, or either with options. */
export type OutputShape =
  Type | readonly [Type] | { readonly type: Type | readonly [Type]; readonly nullable?: boolean };

/**
 * The class whose `@Expose()` properties may leave a tool. Wrap it in a function if two classes
 * name each other: `output: () => [Order]`.
 */
export type OutputDeclaration = OutputShape | (() => OutputShape);

/** The options of every tool, no matter where it comes from. */
export interface ToolBasics extends ToolSettings {
  /** Sent to the model, to help it decide when to use the tool. */
  readonly description: string;
  /** The effect of a call on the world; policy, scheduling and retries depend on it. */
  readonly effect: ToolEffect;
  /** @default private, untrusted, and egress for an `external_side_effect` */
  readonly labels?: Partial<ToolLabels>;
}

interface MethodOptions extends ToolBasics {
  /** The last part of the tool's id. @default the method's name */
  readonly name?: string;
  /**
   * Decides whether the actor of the run may call the tool, in addition to policy: a function, or
   * the name of a method of the class, which is called on the same instance with the run's context.
   * Asked at every call, and with `strictListing` also before the tool is listed. Anything but
   * `true` denies, and so does an exception, or no answer before the tool's time is up. A
   * `ToolRefusal` names the rule for the record. @default policy alone decides
   */
  readonly canCall?: string | ((run: RunContext) => ToolWord | Promise<ToolWord>);
  /**
   * Names a method of the class that decides on one call by what it would act on: it is called on
   * the same instance, with a copy of the input (the DTO, or the named arguments in an object) and
   * the call's context, after policy has allowed the call and before a person is asked to approve
   * it. It must change nothing. Anything but `true` denies; a `ToolRefusal` names the rule for the
   * record. What it throws is the failure of the call. @default policy alone decides
   */
  readonly preflight?: string;
  /**
   * Names a method of the class that tells the approver what a call would do: it is called on the
   * same instance, with the input (the DTO, or the named arguments in an object) and the call's
   * context, and returns a sentence or a `ToolPreview`. It must change nothing. It is called only
   * when an approval is needed; if it fails, the approval has no preview. Arguments that the UI may
   * not see are removed from what it returns.
   */
  readonly preview?: string;
  /**
   * Makes the call request its effect, which then happens later, once. @default the effect happens
   * in the call
   */
  readonly directive?: DirectiveDeclaration;
}

/**
 * The options of `@LlmTool()`. `output` or `reveal` says what may leave the tool; the application
 * does not start if a tool has neither.
 */
export type LlmToolOptions = MethodOptions &
  (
    | {
        readonly output: OutputDeclaration;
        readonly reveal?: undefined;
        readonly outputSchema?: undefined;
      }
    | {
        /**
         * For scalars and plain objects: everything, or the named fields; `[]` for a method that
         * returns nothing.
         */
        readonly reveal: 'all' | readonly string[];
        /**
         * The JSON Schema that every result fits, in which `x-toolloop-origin` says who wrote a
         * field. @default any JSON, of which every text is from outside
         */
        readonly outputSchema?: JSONSchema7;
        readonly output?: undefined;
      }
  );

export const LLM_TOOL_METADATA = 'toolloop:llm-tool';

/** Set on a method that is marked twice. */
export const REPEATED_METADATA = 'toolloop:llm-tool-repeated';

/**
 * Marks a method that the model may call. The order of decorators does not matter: the method is
 * looked up by name when it is called.
 *
 * @example
 * @LlmTool({ description: 'Returns a customer by id.', effect: 'read_only', output: Customer })
 *   getCustomer(@ToolParam('id', { description: 'The id of the customer.' }) id: string):
 *   Promise<Customer> { return this.customers.find(id); }
 */
export function LlmTool(options: LlmToolOptions): MethodDecorator {
  return (prototype, property) => {
    if (Reflect.hasOwnMetadata(LLM_TOOL_METADATA, prototype, property))
      Reflect.defineMetadata(REPEATED_METADATA, true, prototype, property);
    Reflect.defineMetadata(LLM_TOOL_METADATA, options, prototype, property);
    recordMember(prototype, property);
  };
}

const DECORATED_MEMBERS_METADATA = 'toolloop:decorated-members';

/**
 * Lists a member that carries a decorator of ours on its class: most classes of an application have
 * none, and are told apart by one look.
 */
export function recordMember(target: object, property: string | symbol): void {
  Reflect.defineMetadata(
    DECORATED_MEMBERS_METADATA,
    [...decoratedMembersOf(target), property],
    target,
  );
}

/**
 * Returns the own members of a prototype, or of a class, that carry a decorator of ours; one with
 * several is listed as often.
 */
export function decoratedMembersOf(target: object): readonly (string | symbol)[] {
  return (Reflect.getOwnMetadata(DECORATED_MEMBERS_METADATA, target) ?? []) as readonly (
    string | symbol
  )[];
}

/**
 * Makes a tool that changes things request its effect instead of having it at once: a call that was
 * checked, permitted and approved is stored as a directive, and the model reads its id. The effect
 * happens later, once, in the name of the same actor, if it is still permitted then.
 */
export interface DirectiveDeclaration {
  /**
   * Names the effect, e.g. `order.refund`: words of lower-case letters and digits, joined by `.`,
   * `-` or `_`. No two tools share one.
   */
  readonly type: string;
  /**
   * The subject of the effect, as a template over the arguments: `{orderId}`. These must be
   * required strings, numbers or booleans, and not hidden.
   */
  readonly subject: string;
  /**
   * The key, as a template, that makes two requests about a subject the same directive: `whole` if
   * the effect happens once per subject, `{month}` if once a month. With a key, the same request by
   * a colleague is the same directive; without one, only a repetition of the same request is.
   * @default the request's id
   */
  readonly key?: string;
  /**
   * `required` refuses the call if the tool's `preview` fails. The approver and the model read the
   * preview. @default 'optional'
   */
  readonly preview?: ToolDirective['preview'];
  /**
   * Names a method of the class that undoes the effect of a directive that is cancelled after it
   * was performed. It is called on the same instance with the same input, a `PerformedDirective`
   * and the call's context, under the same rules as the tool itself; its result is ignored.
   * @default it cannot be undone
   */
  readonly compensate?: string;
  /**
   * The treatment of an effect of which it is unknown whether it took place, for example after a
   * crash in the middle of it or an unexpected exception: `ask` waits for a person to look;
   * `repeat` performs it again, for effects that are recognised by `context.idempotencyKey` or do
   * no harm twice. While the method is still running in this process, for example after a timeout,
   * both wait for a person. @default 'ask'
   */
  readonly maybeRan?: ToolDirective['maybeRan'];
  /** The number of attempts before its status is `dead`. @default 5 */
  readonly attempts?: number;
}

/** The same for a tool that is no method. */
export type RawDirectiveDeclaration<Input = unknown> = Omit<DirectiveDeclaration, 'compensate'> & {
  compensate?(
    this: void,
    input: Input,
    performed: PerformedDirective,
    context: ToolCallContext,
  ): unknown;
};

const TYPE = /^[a-z][a-z0-9]*(?:[._-][a-z0-9]+)*$/;
const LONGEST_TYPE = 64;

const DIRECTIVE_TYPE: OptionRule<string> = {
  wanted: `small letters and digits, joined by ".", "-" or "_", ${LONGEST_TYPE} characters at most: order.refund`,
  accept: (value) => typeof value === 'string' && TYPE.test(value) && value.length <= LONGEST_TYPE,
  problem: (value) =>
    `Its directive has no type, or none that can be used: ${JSON.stringify(value)}.`,
};

function template(option: string): OptionRule<string> {
  return {
    wanted: `a template over arguments of the tool, e.g. ${option}: '{orderId}'`,
    accept: (value) => typeof value === 'string' && value.trim() !== '',
    problem: () => `Its directive has no ${option}.`,
  };
}

const OF_A_DIRECTIVE = {
  unknown: 'Its directive has no option "*".',
  option: 'The * of its directive',
};

/** The members of a directive that are data, which a tool of a source has too. */
export const DIRECTIVE_DATA = defineOptions<
  Pick<ToolDirective, 'type'> & Partial<Pick<ToolDirective, 'preview' | 'maybeRan' | 'attempts'>>
>(
  {
    type: needed(DIRECTIVE_TYPE),
    preview: oneOf('required', 'optional'),
    maybeRan: oneOf('ask', 'repeat'),
    attempts: wholeFrom(1, 50),
  },
  { wording: OF_A_DIRECTIVE },
);

const METHOD_NAME: OptionRule<string> = { ...TEXT, wanted: 'the name of a method of the class' };

const DIRECTIVE = defineOptions<DirectiveDeclaration>(
  {
    ...DIRECTIVE_DATA.rules,
    subject: needed(template('subject')),
    key: template('key'),
    compensate: METHOD_NAME,
  },
  { wording: OF_A_DIRECTIVE },
);

export const RAW_DIRECTIVE = defineOptions<RawDirectiveDeclaration>(
  { ...DIRECTIVE.rules, compensate: FUNCTION },
  { wording: OF_A_DIRECTIVE },
);

const ACCEPTED = defineOptions<NonNullable<ToolLabels['accepts']>>(
  { untrusted: BOOLEAN, private: BOOLEAN },
  { wording: { unknown: 'There is no label accepts "*".', option: 'Its label "accepts.*"' } },
);

/** A slip in a label would widen or narrow what policy lets through, and nothing would show it. */
const LABELS = defineOptions<Partial<ToolLabels>>(
  {
    returns: oneOf('trusted', 'untrusted'),
    reads: oneOf('public', 'private'),
    egress: BOOLEAN,
    accepts: {
      ...optionsOf(ACCEPTED, { isHere: true }),
      wanted: '{ untrusted: true }, { private: true } or both',
    },
    decisive: listOf(TEXT, 'a list of the names of arguments'),
    writes: TEXT,
    from: TEXT,
  },
  { wording: { unknown: 'There is no label "*".', option: 'Its label "*"' } },
);

/**
 * The option table of every tool. A rule for a new option of all tools belongs here, or to the
 * settings if calls depend on it.
 */
export const TOOL_BASICS = defineOptions<ToolBasics>(
  {
    description: needed({
      wanted: 'a text',
      accept: (value) => typeof value === 'string' && value.trim() !== '',
      problem: () => 'The tool has no description.',
      remedy: () => 'Say in @LlmTool({ description }) what it does.',
    }),
    effect: needed({
      ...oneOf(...TOOL_EFFECTS),
      problem: (value) =>
        value === undefined
          ? 'The tool declares no effect.'
          : `${JSON.stringify(value)} is not an effect.`,
      remedy: () => `Add @LlmTool({ effect }): one of ${TOOL_EFFECTS.join(', ')}.`,
    }),
    labels: optionsOf(LABELS, { isHere: true }),
    ...TOOL_SETTINGS.rules,
  },
  { wording: ITS, together: repetitionFindings },
);

/** A read may always be repeated. */
function repetitionFindings(tool: Partial<ToolBasics>, at: string): Finding[] {
  const { effect, idempotencyKey, idempotencyScope, idempotent = false, questions } = tool;
  const findings: Finding[] = [];
  const say = (problem: string, remedy: string): number => findings.push({ at, problem, remedy });
  if (idempotencyKey && effect === 'read_only')
    say('It only reads and has an idempotencyKey, which is never used.', 'Leave it out.');
  if (idempotent && effect === 'read_only')
    say('It only reads and says that it is idempotent, which is never used.', 'Leave it out.');
  if (questions && effect === 'read_only')
    say(
      'It only reads and has questions for before its calls, which are never asked.',
      'Ask in the method, by context.ask({ key, question, schema }).',
    );
  if (idempotencyScope && !idempotencyKey)
    say(
      'It has an idempotencyScope, but no idempotencyKey.',
      'Give an idempotencyKey, or leave it out.',
    );
  return findings;
}

export const LLM_TOOL = defineOptions<LlmToolOptions>(
  {
    ...TOOL_BASICS.rules,
    name: TEXT,
    canCall: either(METHOD_NAME, FUNCTION),
    preflight: METHOD_NAME,
    preview: METHOD_NAME,
    directive: optionsOf(DIRECTIVE, { isHere: true }),
    output: CHECKED_BY_USE,
    reveal: CHECKED_BY_USE,
    outputSchema: CHECKED_BY_USE,
  },
  TOOL_BASICS.settings,
);
