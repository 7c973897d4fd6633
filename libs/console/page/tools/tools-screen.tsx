import { type ReactNode, useCallback, useMemo, useState } from 'react';
import type { ListedTool, MadeCall, Stop } from '@toolloop/client';
import { Icon } from '../parts/icon.js';
import { type Loaded, useLoaded } from '../parts/loaded.js';
import { grouped, nameOf, spaceOf } from '../parts/names.js';
import { ResultView } from '../parts/result-view.js';
import { SchemaForm } from '../parts/schema-form.js';
import { Failed, Loading, Notice, Problem } from '../parts/states.js';
import { useConsole } from '../shell/console-context.js';
import { hrefOf } from '../shell/route.js';
import { ToolFacts } from './tool-facts.js';

/**
 * The tools that this person's model may call, each with a form that calls it through the same
 * checks.
 */
function ToolsScreen({ selected }: { readonly selected: string | undefined }): ReactNode {
  const { t } = useConsole().words;
  const { value, error, reload } = useTools();
  const [wanted, setWanted] = useState('');
  const shown = useMemo(
    () => (value?.tools ?? []).filter((tool) => matches(tool, wanted)),
    [value, wanted],
  );
  return (
    <div className="tools split">
      <section className="list" aria-label={t('nav.tools')}>
        <header className="bar-top">
          <h1>{t('nav.tools')}</h1>
          <SearchField wanted={wanted} onType={setWanted} />
        </header>
        {error && <Failed error={error} retry={reload} />}
        {!value && !error && <Loading rows={6} />}
        {value && shown.length === 0 && (
          <Notice icon="tools" title={t(wanted === '' ? 'tools.empty' : 'tools.none')} />
        )}
        {value && (
          <Stopped
            stops={value.stops.filter(({ tool }) => !value.tools.some(({ id }) => id === tool))}
            selected={selected}
          />
        )}
        {value && <ToolGroups tools={shown} stops={value.stops} selected={selected} />}
      </section>
      {value && selected !== undefined && (
        <SelectedTool id={selected} {...value} onSwitched={reload} />
      )}
    </div>
  );
}
export default ToolsScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

/** The tools of the person, and the stops for those who may lift them. */
interface ToolsAndStops {
  readonly tools: readonly ListedTool[];
  readonly stops: readonly Stop[];
}

function useTools(): Loaded<ToolsAndStops> {
  const { client, session } = useConsole();
  const mayStop = session.may.includes('killSwitch');
  const load = useCallback(
    async () => ({
      tools: await client.tools(),
      stops: mayStop ? await client.request('GET /policies/stops', {}) : [],
    }),
    [client, mayStop],
  );
  return useLoaded(load);
}

interface SearchFieldProps {
  readonly wanted: string;
  readonly onType: (wanted: string) => void;
}

function SearchField({ wanted, onType }: SearchFieldProps): ReactNode {
  const { t } = useConsole().words;
  return (
    <label className="field inline">
      <span className="unseen">{t('tools.search')}</span>
      <input
        type="search"
        placeholder={t('tools.search')}
        value={wanted}
        onChange={({ target }) => onType(target.value)}
      />
    </label>
  );
}

/** The tools that are switched off: no model is offered them, so that they are in no other list. */
function Stopped({
  stops,
  selected,
}: {
  readonly stops: readonly Stop[];
  readonly selected: string | undefined;
}): ReactNode {
  const { words } = useConsole();
  const named = stops.flatMap(({ tool, ...rest }) =>
    tool === undefined ? [] : [{ ...rest, tool }],
  );
  if (named.length === 0) return null;
  return (
    <section className="tool-group">
      <h2>{words.t('tools.stopped')}</h2>
      <ul className="rows">
        {named.map(({ stopId, tool, reason }) => (
          <li key={stopId}>
            <a
              href={hrefOf('tools', tool)}
              className="row"
              aria-current={tool === selected ? 'true' : undefined}
            >
              <span className="row-kind effect-external_side_effect">
                <Icon name="stop" size={17} />
              </span>
              <span className="row-words">
                <strong>{nameOf(tool)}</strong>
                <small className="muted">{reason}</small>
              </span>
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The listed tools, those of one namespace together. */
function ToolGroups({
  tools,
  stops,
  selected,
}: ToolsAndStops & { readonly selected: string | undefined }): ReactNode {
  return [...grouped(tools, ({ id }) => spaceOf(id))].map(([space, members]) => (
    <section key={space} className="tool-group">
      <h2>{nameOf(space)}</h2>
      <ul className="rows">
        {members.map((tool) => (
          <ToolRow
            key={tool.id}
            tool={tool}
            isChosen={tool.id === selected}
            isStopped={stopOf(tool.id, stops) !== undefined}
          />
        ))}
      </ul>
    </section>
  ));
}

/** The tool that the address names. */
function SelectedTool({
  id,
  tools,
  stops,
  onSwitched,
}: ToolsAndStops & Omit<SwitchProps, 'stop'>): ReactNode {
  const tool = tools.find((one) => one.id === id);
  const stop = stopOf(id, stops);
  return tool ? (
    <ToolItem key={id} {...{ tool, stop, onSwitched }} />
  ) : (
    <Unlisted key={id} {...{ id, stop, onSwitched }} />
  );
}

/** A tool that is not listed: it is switched off, or belongs to an entity. */
function Unlisted({ id, stop, onSwitched }: SwitchProps): ReactNode {
  const { words } = useConsole();
  return (
    <section className="item" aria-label={id}>
      <header>
        <h2>{nameOf(id)}</h2>
        <ul className="chips">
          <li className="chip code">{id}</li>
          {stop && <li className="chip danger">{words.t('tools.stopped')}</li>}
        </ul>
      </header>
      {stop ? (
        <Switch {...{ id, stop, onSwitched }} />
      ) : (
        <Notice icon="tools" title={words.t('tools.ofEntity')} />
      )}
      <ToolFacts id={id} />
    </section>
  );
}

function matches({ id, description, presentation }: ListedTool, wanted: string): boolean {
  return `${id} ${presentation?.label ?? ''} ${description}`
    .toLowerCase()
    .includes(wanted.trim().toLowerCase());
}

function stopOf(id: string, stops: readonly Stop[]): Stop | undefined {
  return stops.find(
    ({ tool, source }) => tool === id || (tool === undefined && source === undefined),
  );
}

interface ToolRowProps {
  readonly tool: ListedTool;
  readonly isChosen: boolean;
  readonly isStopped: boolean;
}

function ToolRow({
  tool: { id, description, effect, presentation },
  isChosen,
  isStopped,
}: ToolRowProps): ReactNode {
  const { words } = useConsole();
  return (
    <li>
      <a href={hrefOf('tools', id)} className="row" aria-current={isChosen ? 'true' : undefined}>
        <span className={`row-kind effect-${effect}`}>
          <Icon name={isStopped ? 'stop' : 'tools'} size={17} />
        </span>
        <span className="row-words">
          <strong>{nameOf(id, presentation)}</strong>
          <small className="muted">{description}</small>
        </span>
        {isStopped && <span className="chip danger">{words.t('tools.stopped')}</span>}
      </a>
    </li>
  );
}

interface ToolItemProps {
  readonly tool: ListedTool;
  readonly stop: Stop | undefined;
  readonly onSwitched: () => void;
}

function ToolItem({ tool, stop, onSwitched }: ToolItemProps): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  const { id, description, effect, inputSchema, presentation } = tool;
  return (
    <section className="item" aria-label={nameOf(id, presentation)}>
      <header>
        <h2>{nameOf(id, presentation)}</h2>
        <ul className="chips">
          <li className="chip code">{id}</li>
          <li className={`chip effect-${effect}`}>{t(`effect.${effect}`)}</li>
          {session.may.includes('explain') && (
            <li className="chip">
              <a href={hrefOf('why', id)}>{t('nav.why')}</a>
            </li>
          )}
        </ul>
        <p>{description}</p>
      </header>
      <Switch {...{ id, stop, onSwitched }} />
      <h3>{t('tools.try')}</h3>
      <TryTool tool={tool} />
      <ToolFacts id={id} />
      <details className="schema">
        <summary>{t('tools.schema')}</summary>
        <pre className="json">{JSON.stringify(inputSchema, null, 2)}</pre>
      </details>
    </section>
  );
}

/** A form that calls the tool as a model's call would be made. */
function TryTool({ tool: { id, inputSchema, effect } }: { readonly tool: ListedTool }): ReactNode {
  const { client, words, pending, announce } = useConsole();
  const { t } = words;
  const [made, setMade] = useState<MadeCall>();
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(false);
  const call = (value: unknown): void => {
    setBusy(true);
    setError(undefined);
    const args = typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
    client
      .call(id, { ...args })
      .then((done) => {
        setMade(done);
        announce(t(`outcome.${done.record.status}`));
        void pending.refresh();
      })
      .catch((thrown: unknown) =>
        setError(thrown instanceof Error ? thrown : new Error(String(thrown))),
      )
      .finally(() => setBusy(false));
  };
  return (
    <>
      {effect !== 'read_only' && <p className="warning-line">{t('tools.real')}</p>}
      <SchemaForm schema={inputSchema} submit={t('tools.call')} isBusy={isBusy} onSubmit={call} />
      {error && <Failed error={error} />}
      {made && <Made made={made} />}
    </>
  );
}

function Made({
  made: { record, ui, injectedTools, waiting, runId },
}: {
  readonly made: MadeCall;
}): ReactNode {
  const { words } = useConsole();
  const { t } = words;
  return (
    <div className={`made ${record.status}`} role="status">
      <p>
        <strong>{t(`outcome.${record.status}`)}</strong>{' '}
        <span className="muted">{words.duration(record.durationMs)}</span>
      </p>
      {record.error && <p className="problem">{record.error.safeMessage}</p>}
      {record.error?.problems?.map(({ pointer, message }) => (
        <p key={pointer} className="problem small">
          <span className="code">{pointer}</span> {message}
        </p>
      ))}
      {ui !== undefined && ui !== null && <ResultView value={ui} />}
      {injectedTools.length > 0 && (
        <p className="muted small">{t('call.brought', { n: injectedTools.length })}</p>
      )}
      {waiting && (
        <a className="run-link" href={hrefOf('runs', runId)}>
          {t('tools.waits')} <Icon name="open" size={14} />
        </a>
      )}
    </div>
  );
}

interface SwitchProps {
  readonly id: string;
  readonly stop: Stop | undefined;
  readonly onSwitched: () => void;
}

/** The kill switch of a tool, for operators; the reason stays with it. */
function Switch({ id, stop, onSwitched }: SwitchProps): ReactNode {
  const { client, words, session } = useConsole();
  const { t } = words;
  const [reason, setReason] = useState('');
  const [problem, setProblem] = useState<string>();
  if (!session.may.includes('killSwitch')) return null;
  const turn = (): void => {
    const turned = stop
      ? client.request('POST /policies/stops/:stopId/release', { stopId: stop.stopId, reason })
      : client.request('POST /policies/stops', { tool: id, reason });
    turned.then(
      () => {
        setReason('');
        onSwitched();
      },
      (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)),
    );
  };
  return (
    <form
      className="switch"
      onSubmit={(event) => {
        event.preventDefault();
        turn();
      }}
    >
      {stop && (
        <p className="warning-line">
          {t('tools.stoppedBy', { by: stop.author, reason: stop.reason, when: words.ago(stop.at) })}
        </p>
      )}
      <label className="field">
        <span>{t('tools.reason')}</span>
        <input
          required
          maxLength={1000}
          value={reason}
          onChange={({ target }) => setReason(target.value)}
        />
      </label>
      <button type="submit" className={stop ? 'button primary' : 'button danger'}>
        {t(stop ? 'tools.release' : 'tools.stop')}
      </button>
      <Problem text={problem} />
    </form>
  );
}
