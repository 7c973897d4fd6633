import type { ToolEffect } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { SubRunProfile } from '../../contracts/loop-request.js';
import { RawTool, type RawToolDeclaration } from './raw-tool.js';

/**
 * Makes a run a tool, for `ToolLoopModule.forRoot({ tools })` and `forFeature({ tools })`. It may
 * do nothing that the outer run may not.
 */
export function subRunTool<Input = SubRunInput>(
  declaration: SubRunToolDeclaration<Input>,
): RawTool {
  const {
    id,
    description,
    effect,
    input = PROMPT,
    prompt,
    when,
    timeoutMs,
    concurrency,
    canCall,
    preflight,
    preview,
    presentation,
    patterns,
    ...profile
  } = declaration;
  const given: OptionsOfTool<Input> = {
    when,
    timeoutMs,
    concurrency,
    canCall,
    preflight,
    preview,
    presentation,
    patterns,
  };
  const said = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  // What its calls may do is decided call by call, by what both runs have read: the sub-run itself
  // takes and gives nothing.
  const labels = {
    returns: 'untrusted',
    reads: 'private',
    egress: false,
    accepts: { untrusted: true, private: true },
  } as const;
  return new RawTool(
    {
      ...said,
      id,
      description,
      effect: effect ?? 'external_side_effect',
      input,
      labels,
      reveal: 'all',
    },
    `sub-run ${id}`,
    OUTSIDE,
    undefined,
    { ...profile, ...(effect && { effect }), prompt: prompt ?? promptIn },
  );
}

const PROMPT: JSONSchema7 = {
  type: 'object',
  properties: {
    prompt: {
      type: 'string',
      minLength: 1,
      description:
        'What to find out or do, with everything needed for it: nothing else is known there.',
    },
  },
  required: ['prompt'],
  additionalProperties: false,
};

/** The input of a sub-run, unless its declaration has another. */
export interface SubRunInput {
  readonly prompt: string;
}

type ToolHalf<Input> = Pick<
  RawToolDeclaration<Input>,
  | 'id'
  | 'description'
  | 'when'
  | 'timeoutMs'
  | 'concurrency'
  | 'canCall'
  | 'preflight'
  | 'preview'
  | 'presentation'
  | 'patterns'
>;

/**
 * All options of the tool itself, so that a new one does not compile until it is taken out of those
 * of the run.
 */
type OptionsOfTool<Input> = {
  readonly [Name in Exclude<keyof ToolHalf<Input>, 'id' | 'description'>]:
    ToolHalf<Input>[Name] | undefined;
};

/**
 * A tool whose call is a run, with its own tools and its own transcript; the outer model reads a
 * summary of its result.
 */
export type SubRunToolDeclaration<Input = SubRunInput> = ToolHalf<Input> &
  SubRunProfile & {
    /**
     * The strongest effect that its tools may have; tools with a stronger one are left out.
     * @default the strongest among `tools`
     */
    readonly effect?: ToolEffect;
  } & SubRunQuestion<Input>;

type SubRunQuestion<Input> =
  | { readonly input?: undefined; prompt?: undefined }
  /** `input` as in `tool()`, and what is asked, made of it. */
  | {
      readonly input: NonNullable<RawToolDeclaration<Input>['input']>;
      prompt(this: void, input: Input): string;
    };

function promptIn(input: unknown): string {
  return typeof input === 'object' && input !== null && 'prompt' in input
    ? String(input.prompt)
    : '';
}

const OUTSIDE = {
  execute(): never {
    throw new Error('A sub-run can only be performed within a run.');
  },
};
