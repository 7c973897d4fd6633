import { type SubmitEvent, type ReactNode, useId, useState } from 'react';
import type { JSONSchema7 } from 'json-schema';
import type { JsonObject, JsonValue } from '@toolloop/protocol';
import { useWords } from '../shell/console-context.js';
import { nameOf, textOf } from './names.js';
import { Problem } from './states.js';

interface SchemaFormProps {
  readonly schema: JSONSchema7;
  readonly submit: string;
  readonly isBusy?: boolean;
  readonly initial?: JsonObject;
  readonly onSubmit: (value: JsonValue) => void;
  readonly children?: ReactNode;
}

/** The name of the field of a schema that is no object. */
const WHOLE = 'value';

/**
 * A form made from a schema. What no field can hold, such as a nested object, is written as JSON;
 * the server checks the whole.
 */
export function SchemaForm({
  schema,
  submit,
  isBusy = false,
  initial = {},
  onSubmit,
  children,
}: SchemaFormProps): ReactNode {
  const { t } = useWords();
  const isWhole = schema.type !== 'object';
  const properties = isWhole ? { [WHOLE]: schema } : (schema.properties ?? {});
  const required = new Set(isWhole ? [WHOLE] : schema.required);
  const [problem, setProblem] = useState<string>();
  const send = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const typed = new FormData(event.currentTarget);
    try {
      const value = valuesIn(typed, properties);
      setProblem(undefined);
      onSubmit(isWhole ? (value[WHOLE] ?? null) : value);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <form className="schema-form" onSubmit={send}>
      {Object.entries(properties).map(([name, field]) => (
        <Field
          key={name}
          name={name}
          schema={schemaOf(field)}
          isRequired={required.has(name)}
          initial={initial[name]}
          isAlone={isWhole}
        />
      ))}
      {Object.keys(properties).length === 0 && <p className="muted">{t('form.nothing')}</p>}
      <Problem text={problem} />
      <div className="actions">
        <button type="submit" className="button primary" disabled={isBusy}>
          {submit}
        </button>
        {children}
      </div>
    </form>
  );
}

interface FieldProps {
  readonly name: string;
  readonly schema: JSONSchema7;
  readonly isRequired: boolean;
  readonly initial: JsonValue | undefined;
  readonly isAlone: boolean;
}

function Field({ name, schema, isRequired, initial, isAlone }: FieldProps): ReactNode {
  const id = useId();
  const { t } = useWords();
  const hint = schema.description ?? schema.title;
  const label = isAlone ? t('form.answer') : nameOf(name);
  const described = hint === undefined ? undefined : `${id}-hint`;
  const common = {
    id,
    name,
    required: isRequired && schema.type !== 'boolean',
    'aria-describedby': described,
  };
  return (
    <div className="field">
      <label htmlFor={id}>
        {label}
        {isRequired ? null : <small className="muted"> {t('form.optional')}</small>}
      </label>
      <Input {...{ common, schema }} start={initial ?? defaultOf(schema)} />
      {hint !== undefined && (
        <small id={described} className="hint">
          {hint}
        </small>
      )}
    </div>
  );
}

interface InputProps {
  readonly common: { readonly id: string; readonly name: string; readonly required: boolean };
  readonly schema: JSONSchema7;
  readonly start: JsonValue | undefined;
}

function Input({ common, schema, start }: InputProps): ReactNode {
  const text = start === undefined ? '' : textOf(start);
  if (schema.enum)
    return (
      <select {...common} defaultValue={text}>
        {!common.required && <option value="" />}
        {schema.enum.map(toText).map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    );
  switch (typeOf(schema)) {
    case 'boolean':
      return <input {...common} type="checkbox" defaultChecked={start === true} />;
    case 'integer':
    case 'number': {
      const { minimum, maximum } = schema;
      return (
        <input
          {...common}
          type="number"
          step={schema.type === 'integer' ? 1 : 'any'}
          min={minimum}
          max={maximum}
          defaultValue={text}
        />
      );
    }
    case 'string': {
      const { minLength, maxLength, format } = schema;
      if ((maxLength ?? 0) > 200)
        return <textarea {...common} rows={3} maxLength={maxLength} defaultValue={text} />;
      return (
        <input
          {...common}
          type={format === 'date' ? 'date' : 'text'}
          minLength={minLength}
          maxLength={maxLength}
          defaultValue={text}
        />
      );
    }
    default:
      return (
        <textarea
          {...common}
          rows={3}
          className="code"
          spellCheck={false}
          defaultValue={text}
          placeholder={'{ }'}
        />
      );
  }
}

function valuesIn(typed: FormData, properties: NonNullable<JSONSchema7['properties']>): JsonObject {
  const values: Record<string, JsonValue> = {};
  for (const [name, field] of Object.entries(properties)) {
    const schema = schemaOf(field);
    const text = typed.get(name);
    const value =
      typeOf(schema) === 'boolean'
        ? text !== null
        : valueOf(typeof text === 'string' ? text : '', schema);
    if (value !== undefined) values[name] = value;
  }
  return values;
}

/**
 * The value of a field: absent where nothing was typed, so that defaults and optional fields stay
 * what they are.
 */
function valueOf(text: string, schema: JSONSchema7): JsonValue | undefined {
  if (text === '') return undefined;
  if (schema.enum) return schema.enum.map(toJson).find((choice) => textOf(choice) === text) ?? text;
  switch (typeOf(schema)) {
    case 'integer':
    case 'number':
      return Number(text);
    case 'string':
      return text;
    default:
      return toJson(JSON.parse(text));
  }
}

function typeOf({ type }: JSONSchema7): string | undefined {
  return Array.isArray(type) ? type.find((one) => one !== 'null') : type;
}

function schemaOf(field: JSONSchema7 | boolean): JSONSchema7 {
  return typeof field === 'boolean' ? {} : field;
}

function defaultOf(schema: JSONSchema7): JsonValue | undefined {
  return schema.default === undefined ? undefined : toJson(schema.default);
}

/** The types of schemas and of JSON differ in names alone. */
function toJson(value: unknown): JsonValue {
  if (
    value === null ||
    typeof value === 'string' ||
    typeof value === 'number' ||
    typeof value === 'boolean'
  )
    return value;
  if (Array.isArray(value)) return value.map(toJson);
  if (typeof value !== 'object') return null;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, toJson(one)]));
}

function toText(value: unknown): string {
  return textOf(toJson(value));
}
