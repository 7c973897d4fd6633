import { type ReactNode, useCallback, useMemo, useState } from 'react';
import { isJsonObject, type JsonObject } from './json-lines.js';
import { readLines } from './json-lines.js';
import { useLoaded } from '../parts/loaded.js';
import { Icon } from '../parts/icon.js';
import { textOf } from '../parts/names.js';
import { Failed, Loading, Locked } from '../parts/states.js';
import { VirtualList } from '../parts/virtual-list.js';
import { useConsole } from '../shell/console-context.js';

const ROW_HEIGHT = 40;
const MOST_LINES = 20_000;

/** The audit of the tenant: searched, and its chain checked in the page. */
function AuditScreen(): ReactNode {
  const { words, session } = useConsole();
  const { t } = words;
  return (
    <div className="page audit">
      <header className="bar-top">
        <h1>{t('nav.audit')}</h1>
      </header>
      {session.may.includes('audit') ? <Lines /> : <Locked permission="audit" />}
    </div>
  );
}
export default AuditScreen; // oxlint-disable-line import/no-default-export -- React's lazy loads a default

function Lines(): ReactNode {
  const { client, words } = useConsole();
  const { t } = words;
  const [wanted, setWanted] = useState('');
  const load = useCallback(async () => {
    const head = await client.auditHead();
    return { head, lines: await readLines(await client.auditLines(), MOST_LINES) };
  }, [client]);
  const { value, error, reload } = useLoaded(load);
  const shown = useMemo(() => filtered(value?.lines ?? [], wanted), [value, wanted]);
  if (error) return <Failed error={error} retry={reload} />;
  if (!value) return <Loading rows={6} />;
  return (
    <>
      <Chain head={value.head} lines={value.lines} />
      <label className="field inline">
        <span>{t('audit.search')}</span>
        <input type="search" value={wanted} onChange={({ target }) => setWanted(target.value)} />
      </label>
      <VirtualList items={shown} rowHeight={ROW_HEIGHT} label={t('nav.audit')} keyOf={({ hash }) => textOf(hash)}>
        {(line) => <Line line={line} />}
      </VirtualList>
    </>
  );
}

function filtered(lines: readonly JsonObject[], wanted: string): readonly JsonObject[] {
  const text = wanted.trim().toLowerCase();
  const found = text === '' ? lines : lines.filter((line) => JSON.stringify(line).toLowerCase().includes(text));
  return found.toReversed();
}

/** Each line names the hash of the one before, and the head that of the last one: a line that is missing or was moved shows. */
function Chain({ head, lines }: { readonly head: unknown; readonly lines: readonly JsonObject[] }): ReactNode {
  const { words } = useConsole();
  const { t } = words;
  const broken = lines.findIndex((line, index) => index > 0 && line['previousHash'] !== lines[index - 1]?.['hash']);
  const isHeadThere = isJsonObject(head) && lines.some(({ hash }) => hash === head['hash']);
  const isWhole = broken < 0 && (isHeadThere || lines.length === 0);
  return (
    <div className={`chain ${isWhole ? 'whole' : 'broken'}`} role="status">
      <Icon name={isWhole ? 'audit' : 'alert'} size={20} />
      <div>
        <strong>{isWhole ? t('audit.whole', { n: lines.length }) : t('audit.broken', { n: Math.max(0, broken) })}</strong>
        <p className="muted small">{t('audit.verify')}</p>
      </div>
    </div>
  );
}

function Line({ line }: { readonly line: JsonObject }): ReactNode {
  const { words } = useConsole();
  const { at, kind, declaredId, actorId, decision, status, action } = line;
  const said = isJsonObject(decision) ? decision['kind'] : (status ?? decision ?? action);
  return (
    <details className="event">
      <summary>
        <time className="muted small">{words.time(textOf(at))}</time>
        <span className="event-type">{textOf(kind)}</span>
        <span className="event-line">
          {[declaredId, said, actorId].flatMap((part) => (part === undefined ? [] : [textOf(part)])).join(' · ')}
        </span>
      </summary>
      <pre className="json">{JSON.stringify(line, null, 2)}</pre>
    </details>
  );
}
