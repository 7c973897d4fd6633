import { type ReactNode, type SubmitEvent, useCallback, useState } from 'react';
import { ToolLoopHttpError, type ChangedPolicy, type PutPolicies } from '@toolloop/client';
import { useLoaded } from '../parts/loaded.js';
import { textOf } from '../parts/names.js';
import { Failed, Loading } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';
import { go } from '../shell/route.js';
import { isJsonObject, type JsonObject } from './json-lines.js';
import { PolicyReplay } from './policy-replay.js';

interface VersionItemProps {
  readonly version: PutPolicies;
  readonly newest: PutPolicies;
  readonly onPut: () => void;
}

/**
 * One version: what it changed, what it says, what it would have decided, and the way back to it.
 */
export function VersionItem({
  version: { number, author, reason, at },
  newest,
  onPut,
}: VersionItemProps): ReactNode {
  const { client, words } = useConsole();
  const { t } = words;
  const [before, setBefore] = useState(Math.max(0, number - 1));
  const load = useCallback(
    () => client.request('GET /policies/:number', { number }),
    [client, number],
  );
  const { value, error, reload } = useLoaded(load);
  return (
    <section className="item" aria-label={t('policies.version', { n: number })}>
      <header>
        <h2>{t('policies.version', { n: number })}</h2>
        <ul className="chips">
          {number === newest.number && (
            <li className="chip effect-read_only">{t('policies.inForce')}</li>
          )}
          {number > 0 && <li className="chip">{author}</li>}
          {number > 0 && <li className="chip">{words.time(at)}</li>}
        </ul>
        <p>{number === 0 ? t('policies.startedLead') : reason}</p>
      </header>
      {newest.number > 0 && (
        <>
          <div className="heading">
            <h3>{t('policies.changes')}</h3>
            <label className="field beside">
              <span>{t('policies.comparedTo')}</span>
              <select value={before} onChange={({ target }) => setBefore(Number(target.value))}>
                {Array.from({ length: newest.number + 1 }, (_, one) => newest.number - one).map(
                  (one) => (
                    <option key={one} value={one}>
                      {t('policies.version', { n: one })}
                    </option>
                  ),
                )}
              </select>
            </label>
          </div>
          <Changes from={before} to={number} />
        </>
      )}
      <PolicyReplay by={number} />
      {number !== newest.number && (
        <RollBack number={number} expected={newest.number} onPut={onPut} />
      )}
      <details className="schema">
        <summary>{t('policies.text')}</summary>
        {error && <Failed error={error} retry={reload} />}
        {value && <pre className="json">{JSON.stringify(value.policies ?? [], null, 2)}</pre>}
      </details>
    </section>
  );
}

function Changes({ from, to }: { readonly from: number; readonly to: number }): ReactNode {
  const { client, words } = useConsole();
  const load = useCallback(
    () => client.request('GET /policies/diff', { from, to }),
    [client, from, to],
  );
  const { value, error, reload } = useLoaded(load);
  if (error) return <Failed error={error} retry={reload} />;
  if (!value) return <Loading rows={2} />;
  if (value.length === 0) return <p className="muted">{words.t('policies.same')}</p>;
  return (
    <ul className="changes">
      {value.map((change, index) => (
        <ChangeLine key={index} change={change} />
      ))}
    </ul>
  );
}

/** A difference: what went is struck, what came stands behind it. */
function ChangeLine({
  change: { at, before, after },
}: {
  readonly change: ChangedPolicy;
}): ReactNode {
  return (
    <li>
      <span className="code muted">{at === '' ? '/' : at}</span>
      <span className="code diff">
        {before !== undefined && <del>{textOf(before)}</del>}{' '}
        {after !== undefined && <ins>{textOf(after)}</ins>}
      </span>
    </li>
  );
}

interface PutFormProps {
  readonly label: string;
  readonly expected: number;
  readonly put: (reason: string) => Promise<PutPolicies>;
  readonly onPut: () => void;
}

/** The reason for a change, and what is wrong with it. */
function PutForm({ label, put, onPut }: Omit<PutFormProps, 'expected'>): ReactNode {
  const { words, announce } = useConsole();
  const [problems, setProblems] = useState<readonly string[]>([]);
  const [isBusy, setBusy] = useState(false);
  const submit = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const reason = new FormData(event.currentTarget).get('reason');
    setBusy(true);
    put(typeof reason === 'string' ? reason : '')
      .then(({ number }) => {
        announce(words.t('policies.putDone', { n: number }));
        onPut();
        go('policies', String(number));
      })
      .catch((error: unknown) => setProblems(problemsIn(error)))
      .finally(() => setBusy(false));
  };
  return (
    <form className="switch" onSubmit={submit}>
      <label className="field">
        <span>{words.t('policies.reason')}</span>
        <input name="reason" required maxLength={1000} autoComplete="off" />
      </label>
      <button type="submit" className="button primary" disabled={isBusy}>
        {label}
      </button>
      {problems.length > 0 && (
        <ul className="problem" role="alert">
          {problems.map((problem) => (
            <li key={problem}>{problem}</li>
          ))}
        </ul>
      )}
    </form>
  );
}

function problemsIn(error: unknown): readonly string[] {
  if (error instanceof ToolLoopHttpError && error.details.length > 0) return error.details;
  return [error instanceof Error ? error.message : String(error)];
}

function RollBack({
  number,
  expected,
  onPut,
}: {
  readonly number: number;
  readonly expected: number;
  readonly onPut: () => void;
}): ReactNode {
  const { client, words } = useConsole();
  const put = (reason: string): Promise<PutPolicies> =>
    client.request('POST /policies/:number/rollback', { number, expected, reason });
  return <PutForm label={words.t('policies.rollBack')} put={put} onPut={onPut} />;
}

/** Policies that were not put yet: they can be replayed before they are. */
export function DraftItem({
  newest: { number, policies },
  onPut,
}: {
  readonly newest: PutPolicies;
  readonly onPut: () => void;
}): ReactNode {
  const { client, words } = useConsole();
  const { t } = words;
  const [text, setText] = useState(() =>
    JSON.stringify(policies?.length === 1 ? policies[0] : (policies ?? EMPTY), null, 2),
  );
  const draft = draftIn(text);
  return (
    <section className="item" aria-label={t('policies.draft')}>
      <header>
        <h2>{t('policies.draft')}</h2>
        <p className="muted">{t('policies.draftLead')}</p>
      </header>
      <label className="field">
        <span>{t('policies.text')}</span>
        <textarea
          className="code"
          rows={16}
          spellCheck={false}
          value={text}
          onChange={({ target }) => setText(target.value)}
        />
      </label>
      {draft === undefined ? (
        <p className="problem" role="alert">
          {t('policies.notJson')}
        </p>
      ) : (
        <>
          <PolicyReplay by={draft} />
          <PutForm
            label={t('policies.put')}
            put={(reason) =>
              client.request('POST /policies', { policy: draft, expected: number, reason })
            }
            onPut={onPut}
          />
        </>
      )}
    </section>
  );
}

/** Narrows nothing. */
const EMPTY = { version: 'tenant-1', allow: ['*'] };

function draftIn(text: string): JsonObject | readonly JsonObject[] | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (Array.isArray(value)) return value.every(isJsonObject) ? value : undefined;
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
