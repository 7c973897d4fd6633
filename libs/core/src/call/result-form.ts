import {
  isJsonList,
  isJsonObject,
  isRecord,
  type JsonObject,
  type JsonValue,
} from '@toolloop/protocol';
import { AttachedResult } from '../contracts/attachment.js';
import type { Tool } from '../contracts/tool.js';
import type { SchemaValidators } from '../schema/validators.js';
import type { InterceptorAnswer, InvokedResult } from './outcome.js';

/**
 * Judges by the form that a tool declares what interceptors made of a result. They may change it,
 * such as by masking fields, and wrapping it takes it away: of a wrapped object no declared field
 * is left, and the model would read `{}` as if that were the answer.
 */
export class ResultForm {
  constructor(
    private readonly tool: Tool,
    private readonly validators: SchemaValidators,
  ) {}

  /**
   * Returns undefined if no interceptor changed the result, if it still has its form, and if the
   * method's own value never had it.
   */
  lostBy({ live, result, method, answers = [] }: InvokedResult): LostForm | undefined {
    if (method === 'not_called')
      return this.isHollow(result)
        ? namedIn(answers, (answer) => this.isHollow(answer))
        : undefined;
    if (result === live) return undefined;
    const own = this.shown(live);
    if (own === undefined || !this.isLost(own, live, result)) return undefined;
    return namedIn(answers, (answer) => this.isLost(own, live, answer));
  }

  private isLost(own: JsonValue, live: unknown, answer: unknown): boolean {
    const all = this.shown(answer);
    if (all === undefined) return true;
    const [before, shown] = [this.fieldsOf(own), this.fieldsOf(all)];
    return hasLostFields(before, shown) || this.isAround(before, live, { answer, shown });
  }

  /** Returns what the model would see of a value; undefined if it does not fit the declaration. */
  private shown(value: unknown): JsonValue | undefined {
    const { output, spec } = this.tool;
    try {
      const shown = output.project(value, 'model');
      return spec.outputSchema && this.validators.validate(spec.outputSchema, shown).length > 0
        ? undefined
        : shown;
    } catch {
      return undefined; // what does not fit is thrown
    }
  }

  /** Leaves in what a schema names, if neither a class nor a list of fields says what is shown. */
  private fieldsOf(shown: JsonValue): JsonValue {
    const { redaction, outputSchema } = this.tool.spec;
    if (redaction.kind !== 'reveal' || redaction.fields !== 'all') return shown;
    const names = outputSchema?.properties && Object.keys(outputSchema.properties);
    if (!names || !isJsonObject(shown)) return UNDECLARED;
    return Object.fromEntries(Object.entries(shown).filter(([name]) => names.includes(name)));
  }

  /**
   * Tells an answer that holds the result under a name of its own, though it shares others with it:
   * `{ status: 'ok', data }` of an order that has a status.
   */
  private isAround(
    own: JsonValue,
    live: unknown,
    { answer, shown }: { readonly answer: unknown; readonly shown: JsonValue },
  ): boolean {
    if (!isRecord(answer) || !isJsonObject(shown) || shown === UNDECLARED) return false;
    const lost = isJsonObject(own)
      ? Object.keys(own).filter((name) => !Object.hasOwn(shown, name))
      : [];
    const added = Object.entries(answer).filter(
      ([name]) => !Object.hasOwn(shown, name) && !(isRecord(live) && name in live),
    );
    return added.some(([, value]) => value === live || (isRecord(value) && this.has(value, lost)));
  }

  private has(value: object, names: readonly string[]): boolean {
    const shown = this.shown(value);
    return (
      shown !== undefined && isJsonObject(shown) && names.some((name) => Object.hasOwn(shown, name))
    );
  }

  /** Tells an answer in the method's place of which nothing that the tool declares is left. */
  private isHollow(answer: unknown): boolean {
    if (!isRecord(answer) || Object.keys(answer).length === 0) return false;
    const shown = this.shown(answer);
    return shown === undefined || isEmpty(this.fieldsOf(shown));
  }
}

/** The loss of the form that a tool declares, by an interceptor. */
export interface LostForm {
  /** The class of the interceptor that changed it, as far as it is known. */
  readonly interceptor: string | undefined;
}

/** Stands for a form that nothing declares. */
const UNDECLARED: JsonObject = Object.freeze({ any: true });

function namedIn(
  answers: readonly InterceptorAnswer[],
  isLost: (answer: unknown) => boolean,
): LostForm {
  const lost = answers.find(({ answer }) =>
    isLost(answer instanceof AttachedResult ? answer.value : answer),
  );
  return { interceptor: lost?.interceptor };
}

/** Returns whether no declared field is left, of an object or of one in a list. */
function hasLostFields(own: JsonValue | undefined, shown: JsonValue): boolean {
  const items = isJsonList(own) ? own : undefined;
  if (isJsonList(shown))
    return shown.some((item, index) =>
      hasLostFields(items ? (items[index] ?? items[0]) : own, item),
    );
  if (!isJsonObject(shown)) return false;
  if (!isJsonObject(own)) return items !== undefined || isEmpty(shown);
  const names = Object.keys(own);
  return names.length > 0 && !names.some((name) => Object.hasOwn(shown, name));
}

function isEmpty(value: JsonValue): boolean {
  return isJsonObject(value) && Object.keys(value).length === 0;
}
