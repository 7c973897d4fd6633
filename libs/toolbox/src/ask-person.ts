import { type ToolCallContext, ToolError, ToolField } from '@toolloop/core';
import type { RawToolDeclaration } from '@toolloop/core/catalog';
import { Type } from 'class-transformer';
import {
  ArrayMaxSize,
  ArrayMinSize,
  ArrayUnique,
  IsArray,
  IsBoolean,
  IsIn,
  IsOptional,
  IsString,
  Matches,
  MaxLength,
  MinLength,
  ValidateNested,
} from 'class-validator';

const FIELD_KINDS = ['text', 'choice', 'number', 'date', 'yes_no'] as const;
const KINDS = [...FIELD_KINDS, 'form'] as const;

const MOST_OPTIONS = 20;
const MOST_FIELDS = 8;

const OPTIONS = 'For a choice: what there is to choose from.';

/** One field of a small form. */
export class AskedField {
  @ToolField({ description: 'The name of the value in the answer.', example: 'deliveryDate' })
  @Matches(/^[a-zA-Z]\w{0,39}$/)
  readonly name!: string;

  @ToolField({ description: 'What the person reads beside the field.' })
  @IsString()
  @MinLength(1)
  @MaxLength(200)
  readonly label!: string;

  @IsIn(FIELD_KINDS) readonly kind!: (typeof FIELD_KINDS)[number];

  @ToolField({ description: OPTIONS })
  @IsOptional()
  @IsArray()
  @ArrayMinSize(2)
  @ArrayMaxSize(MOST_OPTIONS)
  @ArrayUnique()
  @IsString({ each: true })
  @MaxLength(200, { each: true })
  readonly options?: string[];

  @ToolField({ description: 'Whether the person may leave it empty.' })
  @IsOptional()
  @IsBoolean()
  readonly optional?: boolean;
}

/** The input of `person__ask`. */
export class AskPersonInput {
  @ToolField({
    description: 'The question, in full: the person may see nothing else of the conversation.',
  })
  @IsString()
  @MinLength(1)
  @MaxLength(1_000)
  readonly question!: string;

  @ToolField({ description: 'The form of the answer.' })
  @IsIn(KINDS)
  readonly kind!: (typeof KINDS)[number];

  @ToolField({ description: OPTIONS })
  @IsOptional()
  @IsArray()
  @ArrayMinSize(2)
  @ArrayMaxSize(MOST_OPTIONS)
  @ArrayUnique()
  @IsString({ each: true })
  @MaxLength(200, { each: true })
  readonly options?: string[];

  @ToolField({ description: 'For a form: its fields.' })
  @IsOptional()
  @IsArray()
  @ArrayMinSize(1)
  @ArrayMaxSize(MOST_FIELDS)
  @ValidateNested({ each: true })
  @Type(() => AskedField)
  readonly fields?: AskedField[];
}

/**
 * Lets a model ask a person for a value that it lacks: a text, a choice, a number, a date, a yes or
 * no, or a small form. The run waits for the answer, which is trusted as that person's words about
 * the value, and consents to no call. People are shown that a model asks, and whether it had read
 * what others wrote.
 *
 * @example
 * ToolLoopModule.forRoot({
 *   model,
 *   tools: [rawTool(AskPerson)],
 *   policy: {
 *     allow: ['person__ask'],
 *     questions: [{ tools: ['person__ask'], roles: ['manager'] }],
 *   },
 * });
 */
export class AskPerson {
  static readonly shortName: string = 'ask_person';
  static readonly tool: RawToolDeclaration<AskPersonInput> = {
    id: 'person__ask',
    description:
      'Asks a person for a value that you lack and cannot look up, and waits for the answer. Never ask for passwords, keys, card numbers or other secrets. An answer is no approval of a call.',
    effect: 'read_only',
    labels: { reads: 'private', returns: 'trusted', egress: false },
    input: AskPersonInput,
    reveal: ['answer'],
  };

  /**
   * Asks, and returns the answer once it is there.
   *
   * @throws ToolError for a question that cannot be asked, and where the person gives no answer
   */
  async call(
    { question, kind, options, fields = [] }: AskPersonInput,
    context: Pick<ToolCallContext, 'ask'>,
  ) {
    const schema = kind === 'form' ? formOf(fields) : fieldOf(kind, options, 'the question');
    return { answer: await context.ask({ key: 'answer', question, schema, askedBy: 'model' }) };
  }
}

type Schema = Parameters<ToolCallContext['ask']>[0]['schema'];

/** A text that a person types, in characters. */
const LONGEST_TEXT = 2_000;

/** @throws ToolError for a form without fields, and for one with a name twice */
function formOf(fields: readonly AskedField[]): Schema {
  const names = fields.map(({ name }) => name);
  if (names.length === 0)
    throw new ToolError('A form has fields: give `fields`, or ask for a value of another kind.');
  if (new Set(names).size < names.length)
    throw new ToolError('Two fields of the form have the same name. Give each another.');
  return {
    type: 'object',
    properties: Object.fromEntries(
      fields.map(({ name, label, kind, options }) => [
        name,
        { ...fieldOf(kind, options, `the field ${name}`), title: label },
      ]),
    ),
    required: fields.filter(({ optional = false }) => !optional).map(({ name }) => name),
    additionalProperties: false,
  };
}

/** @throws ToolError for a choice without options */
function fieldOf(
  kind: AskedField['kind'],
  options: readonly string[] | undefined,
  what: string,
): Schema {
  switch (kind) {
    case 'text':
      return { type: 'string', minLength: 1, maxLength: LONGEST_TEXT };
    case 'number':
      return { type: 'number' };
    case 'date':
      return { type: 'string', format: 'date' };
    case 'yes_no':
      return { type: 'boolean' };
    case 'choice':
      if (!options) throw new ToolError(`There is nothing to choose from: give ${what} options.`);
      return { type: 'string', enum: [...options] };
  }
}
