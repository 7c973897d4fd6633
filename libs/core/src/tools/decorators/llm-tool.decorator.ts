import type { Type } from '@nestjs/common';
import { type Finding, TOOL_EFFECTS, type ToolEffect, type ToolLabels } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { RunContext } from '../../contracts/tool-call.js';
import { TOOL_SETTINGS, type ToolSettings } from '../../contracts/tool-settings.js';
import type { ToolWord } from '../../contracts/tool.js';
import {
  BOOLEAN,
  FUNCTION,
  TEXT,
  either,
  listOf,
  needed,
  oneOf,
  optionsOf,
} from '../../findings/option-rules.js';
import { CHECKED_BY_USE, ITS, defineOptions } from '../../findings/options.js';
import { recordMember } from './decorated-members.js';
import { DIRECTIVE, type DirectiveDeclaration, METHOD_NAME } from './directive-declaration.js';

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
  return (prototype, property, descriptor) => {
    if (Reflect.hasOwnMetadata(LLM_TOOL_METADATA, prototype, property))
      Reflect.defineMetadata(REPEATED_METADATA, true, prototype, property);
    Reflect.defineMetadata(LLM_TOOL_METADATA, options, prototype, property);
    recordMember(prototype, property);
    recordFunctions(prototype, property, descriptor);
  };
}

export const LLM_TOOL_METADATA = 'toolloop:llm-tool';

/**
 * Records the function of a method as its class was written, and as the decorators below have left
 * it. One above may put another in their place.
 */
function recordFunctions(
  prototype: object,
  property: string | symbol,
  descriptor: PropertyDescriptor | undefined,
): void {
  const written = Reflect.getOwnPropertyDescriptor(prototype, property);
  const functions = [written, descriptor].flatMap((one) => {
    const value: unknown = one?.value;
    return typeof value === 'function' ? [value] : [];
  });
  Reflect.defineMetadata(FUNCTIONS_METADATA, [...new Set(functions)], prototype, property);
}

const FUNCTIONS_METADATA = 'toolloop:functions-of';

/** Returns the functions that stood for a method of this prototype when it was marked. */
export function markedFunctionsOf(prototype: object, property: string): readonly object[] {
  return (Reflect.getOwnMetadata(FUNCTIONS_METADATA, prototype, property) ??
    []) as readonly object[];
}

/** Set on a method that is marked twice. */
export const REPEATED_METADATA = 'toolloop:llm-tool-repeated';

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
