import { type ReactNode, type SubmitEvent, useCallback, useId, useState } from 'react';
import type { Stop, StopOrder } from '@toolloop/client';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Failed, Loading, Locked, Notice, Problem } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';
import type { Words } from '../words/words.js';

const REACHES = ['tool', 'source', 'tenant', 'everything'] as const;
type Reach = (typeof REACHES)[number];

/** What is stopped, and the switch for a tool, a source, the tenant or everything. */
export function KillSwitch(): ReactNode {
  const { client, words, session } = useConsole();
  const { t } = words;
  const maySwitch = session.may.includes('killSwitch');
  const load = useCallback(
    async () => (maySwitch ? client.request('GET /policies/stops', {}) : []),
    [client, maySwitch],
  );
  const { value, error, reload } = useLoaded(load);
  return (
    <section className="item" aria-label={t('policies.switch')}>
      <header>
        <h2>{t('policies.switch')}</h2>
        <p className="muted">{t('stops.lead')}</p>
      </header>
      {!maySwitch && <Locked permission="killSwitch" />}
      {maySwitch && <StopForm onStopped={reload} />}
      {error && <Failed error={error} retry={reload} />}
      {!value && !error && <Loading rows={2} />}
      {maySwitch && value?.length === 0 && <Notice icon="check" title={t('stops.none')} />}
      {value && value.length > 0 && (
        <>
          <h3>{t('stops.inForce')}</h3>
          <ul className="stops">
            {value.map((stop) => (
              <StopItem key={stop.stopId} stop={stop} onReleased={reload} />
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

function StopForm({ onStopped }: { readonly onStopped: () => void }): ReactNode {
  const { client, words, announce } = useConsole();
  const { t } = words;
  const [reach, setReach] = useState<Reach>('tool');
  const { send, problem, isBusy } = useSwitching(onStopped);
  const stop = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const typed = new FormData(form);
    const order = orderOf(reach, wordIn(typed, 'name'));
    send(
      client.request('POST /policies/stops', { ...order, reason: wordIn(typed, 'reason') }),
      () => {
        form.reset();
        announce(t('stops.done'));
      },
    );
  };
  return (
    <form className="stop-form" onSubmit={stop}>
      <ReachFilter reach={reach} onChoose={setReach} />
      <NameField reach={reach} />
      <ReasonField />
      <div className="actions">
        <button type="submit" className="button danger" disabled={isBusy}>
          <Icon name="stop" size={16} /> {t('tools.stop')}
        </button>
      </div>
      <Problem text={problem} />
    </form>
  );
}

interface ReachFilterProps {
  readonly reach: Reach;
  readonly onChoose: (reach: Reach) => void;
}

/** The reaches of a stop that this person may give. */
function ReachFilter({ reach, onChoose }: ReachFilterProps): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  const reaches = REACHES.filter(
    (one) => one !== 'everything' || session.everywhere.includes('killSwitch'),
  );
  return (
    <div className="filters" role="group" aria-label={t('stops.what')}>
      {reaches.map((one) => (
        <button
          key={one}
          type="button"
          className="filter"
          aria-pressed={reach === one}
          onClick={() => onChoose(one)}
        >
          {t(`stops.${one}`, { tenant: session.tenant })}
        </button>
      ))}
    </div>
  );
}

/** The name of the tool or the source to stop; a wider stop needs none. */
function NameField({ reach }: Pick<ReachFilterProps, 'reach'>): ReactNode {
  const { t } = useConsole().words;
  const names = useNames();
  const list = useId();
  if (reach !== 'tool' && reach !== 'source') return null;
  return (
    <label className="field">
      <span>{t(`stops.${reach}Name`)}</span>
      <input
        key={reach}
        name="name"
        required
        className="code"
        list={list}
        autoComplete="off"
        maxLength={128}
      />
      <datalist id={list}>
        {names[reach].map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </label>
  );
}

function ReasonField(): ReactNode {
  const { t } = useConsole().words;
  return (
    <label className="field">
      <span>{t('tools.reason')}</span>
      <input name="reason" required maxLength={1000} autoComplete="off" />
    </label>
  );
}

function wordIn(typed: FormData, name: string): string {
  const value = typed.get(name);
  return typeof value === 'string' ? value.trim() : '';
}

function orderOf(reach: Reach, name: string): StopOrder {
  if (reach === 'tool') return { tool: name };
  if (reach === 'source') return { source: name };
  return reach === 'everything' ? { everywhere: true } : {};
}

/** The names that a person may choose from; others can be typed. */
function useNames(): { readonly tool: readonly string[]; readonly source: readonly string[] } {
  const { client, session } = useConsole();
  const maySeeSources = session.may.includes('sources');
  const load = useCallback(async () => {
    const [tools, sources] = await Promise.all([
      client.tools(),
      maySeeSources ? client.request('GET /sources', {}) : undefined,
    ]);
    const ofSources =
      sources?.sources.flatMap((source) => source.tools.map(({ declaredId }) => declaredId)) ?? [];
    return {
      tool: [...new Set([...tools.map(({ id }) => id), ...ofSources])],
      source: sources?.sources.map(({ source }) => source) ?? [],
    };
  }, [client, maySeeSources]);
  return useLoaded(load).value ?? { tool: [], source: [] };
}

function StopItem({
  stop,
  onReleased,
}: {
  readonly stop: Stop;
  readonly onReleased: () => void;
}): ReactNode {
  const { client, words, session, announce } = useConsole();
  const { t } = words;
  const { send, problem, isBusy } = useSwitching(onReleased);
  const mayRelease = stop.tenant !== undefined || session.everywhere.includes('killSwitch');
  const release = (event: SubmitEvent<HTMLFormElement>): void => {
    event.preventDefault();
    send(
      client.request('POST /policies/stops/:stopId/release', {
        stopId: stop.stopId,
        reason: wordIn(new FormData(event.currentTarget), 'reason'),
      }),
      () => announce(t('stops.released')),
    );
  };
  return (
    <li className="stop">
      <p>
        <strong>{targetOf(stop, words)}</strong>
      </p>
      <p className="warning-line">
        {t('tools.stoppedBy', { by: stop.author, reason: stop.reason, when: words.ago(stop.at) })}
      </p>
      {mayRelease ? (
        <form className="beside-form" onSubmit={release}>
          <ReasonField />
          <button type="submit" className="button primary" disabled={isBusy}>
            {t('tools.release')}
          </button>
        </form>
      ) : (
        <p className="muted small">{t('stops.ofAll')}</p>
      )}
      <Problem text={problem} />
    </li>
  );
}

function targetOf({ tool, source, tenant }: Stop, { t }: Words): string {
  if (tool !== undefined) return tool;
  if (source !== undefined) return `${t('stops.source')}: ${source}`;
  return tenant === undefined ? t('stops.everything') : t('stops.tenant', { tenant });
}

interface Switching {
  readonly problem: string | undefined;
  readonly isBusy: boolean;
  readonly send: (switched: Promise<unknown>, done: () => void) => void;
}

function useSwitching(onSwitched: () => void): Switching {
  const [problem, setProblem] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const send: Switching['send'] = (switched, done) => {
    setBusy(true);
    switched
      .then(() => {
        setProblem(undefined);
        done();
        onSwitched();
      })
      .catch((error: unknown) => setProblem(error instanceof Error ? error.message : String(error)))
      .finally(() => setBusy(false));
  };
  return { problem, isBusy, send };
}
