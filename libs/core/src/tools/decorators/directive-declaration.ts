import type { ToolCallContext } from '../../contracts/tool-call.js';
import type { PerformedDirective, ToolDirective } from '../../contracts/tool.js';
import { FUNCTION, TEXT, needed, oneOf, wholeFrom } from '../../findings/option-rules.js';
import { defineOptions, type OptionRule } from '../../findings/options.js';

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

export const METHOD_NAME: OptionRule<string> = {
  ...TEXT,
  wanted: 'the name of a method of the class',
};

export const DIRECTIVE = defineOptions<DirectiveDeclaration>(
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
