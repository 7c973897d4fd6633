/** The English this model knows: closed word classes, generic verbs and a few synonyms, nothing of any one domain. */

const list = (text: string): readonly string[] => text.trim().split(/\s+/);

/** Words that say nothing about which tool is meant. */
const STOP_WORDS: ReadonlySet<string> = new Set(
  list(`a an the this that these those some any i me my mine we us our ours you your yours he him his she her hers it its they them their
    theirs who whom whose which what where when why how s t d m re ll ve is are was were be been being am do does did doing has have had
    having can could will would shall should may might must ought of in on at by for from to with because since until during while whether
    without within into onto about over under between than as and or but not no nor so if then else also too both each every all per via up
    down out off again there here just only very really please thanks thank hello hi hey ok okay yes now still already ever get gets show
    shows give gives tell tells display fetch retrieve read view see let want wants need needs like know help say says saying look lookup
    using use kindly go ahead don doesn didn isn aren won many much more most less least other another same such one current currently
    anything something everything named called titled mine inside`),
);

/** Verbs that look for something; they point at a tool that searches and ask for no answer of their own. */
const SEARCH_VERBS = list('find search list look lookup browse query locate discover');

/** Verbs that ask to be told something. */
export const ASKING_VERBS: ReadonlySet<string> = new Set([
  ...SEARCH_VERBS,
  ...list('get show fetch read retrieve load view display give tell describe check compute calculate compare explain summarise summarize'),
  ...list('sort report outline'),
]);

/** Verbs that ask for something to be done. */
export const DOING_VERBS: ReadonlySet<string> = new Set(
  list(`add append approve archive arrange ask assign attach begin book build buy call cancel change clear close confirm convert copy create
    deactivate decline define delete deliver destroy disable divide draft drop edit email enable end enter estimate execute export file fill
    finish forward generate hire import increase insert install invite invoice issue join keep launch leave lock log mail make mark measure
    merge message move multiply name notify open order pause pay place plan play post predict prepare print publish purchase put rate refund
    register reject release remind remove rename rent repeat replace reply request reserve reset restart restore resume return revoke run
    save schedule sell send set share ship sign split start stop submit subscribe subtract sum switch sync tag take test text track transfer
    translate turn undo unlock update upload verify void wire withdraw write`),
);

/** Verbs that only carry the word behind them: to "issue a refund" is to refund. */
export const LIGHT_VERBS: ReadonlySet<string> = new Set(
  list('do make perform request submit issue create initiate process place file execute'),
);

/** Verbs of one meaning; only these stand for each other where something is changed. */
const ACTIONS: readonly (readonly string[])[] = [
  list('buy purchase order'),
  list('book reserve'),
  list('cancel abort revoke'),
  list('delete remove erase destroy'),
  list('create make'),
  list('add insert append put'),
  list('update change edit modify set rename adjust'),
  list('send mail email message'),
  list('start begin launch'),
  list('stop end finish halt'),
];

/** Words of one meaning, by which tools and fields are found. */
const MEANINGS: readonly (readonly string[])[] = [
  ...ACTIONS,
  SEARCH_VERBS,
  list('total sum overall'),
  list('average mean'),
  list('count number quantity'),
  list('price cost charge'),
  list('recent latest last newest'),
  list('status state'),
  list('location address place'),
  list('available stock'),
  list('item line'),
  list('multiply times'),
];

/** Forms that no rule about endings reaches. */
const IRREGULAR: ReadonlyMap<string, string> = new Map(
  list(`spent:spend sent:send bought:buy paid:pay payment:pay shipment:ship made:make gave:give given:give found:find took:take taken:take
    held:hold sold:sell left:leave wrote:write written:write built:build people:person children:child men:man women:woman due:due news:news
    status:status address:address less:less series:series availability:availabl`).map((pair) => {
    const [form = '', base = ''] = pair.split(':');
    return [form, base];
  }),
);

/** Words that stand for a day without naming a date. */
export const DAY_WORDS: ReadonlySet<string> = new Set(
  list('today tomorrow yesterday tonight monday tuesday wednesday thursday friday saturday sunday weekend'),
);
export const NUMBER_WORDS = list('zero one two three four five six seven eight nine ten eleven twelve');
export const PRONOUNS: ReadonlySet<string> = new Set(list('he him his she her hers it its they them their theirs this that these those'));
export const NEGATIONS: ReadonlySet<string> = new Set(list("not never no without don't dont doesn't exclude excluding non"));

/** Puts items with the same key together; groups and items keep their order. */
export function groupedBy<T>(items: readonly T[], keyOf: (item: T) => string): T[][] {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return [...groups.values()];
}

/** The lower-case words of a text or of an id in any case style. */
export function wordsOf(text: string): string[] {
  return (
    text
      .replaceAll(/\be-mail/gi, 'email')
      .replaceAll(/([\p{Ll}\p{N}])(\p{Lu})|(\p{Lu})(?=\p{Lu}\p{Ll})/gu, '$1$3 $2')
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu) ?? []
  );
}

/** An id's words as a person writes them: `getAverageSpend` is "get average spend". */
export function humanised(id: string): string {
  return wordsOf(id).join(' ');
}

/** Cuts the endings that grammar adds, so that "cancelled" meets "cancel" and "orders" meets "order". */
export function stem(word: string): string {
  const lower = word.toLowerCase();
  const irregular = IRREGULAR.get(lower);
  if (irregular !== undefined) return irregular;
  if (lower.length < 4) return lower === 'ids' ? 'id' : lower;
  const singular = withoutPlural(lower);
  return IRREGULAR.get(singular) ?? evened(withoutEnding(singular));
}

function withoutPlural(word: string): string {
  if (word.endsWith('ies') && word.length > 4) return `${word.slice(0, -3)}y`;
  if (/(?:s|x|z|ch|sh)es$/.test(word)) return word.slice(0, -2);
  return /[^su]s$/.test(word) && !word.endsWith('is') ? word.slice(0, -1) : word;
}

function withoutEnding(word: string): string {
  const cut = word.endsWith('eed') ? word : word.replace(/(?<=.{5})ation$|(?<=.{3})(?:ing|ed)$|(?<=.{4})ly$/, '');
  return /[aeiouy]/.test(cut) ? cut : word;
}

/** Takes off what is left in one form and missing in another: a last e, "at" of "-ate", a doubled consonant. */
function evened(word: string): string {
  if (word.length < 4) return word;
  return word
    .replace(/e$/, '')
    .replace(/(?<=.{5})at$/, '')
    .replace(/(?<=.{2})([^aeiou])\1$/, '$1');
}

/** The stems of a text's words that carry meaning. */
export function stemsOf(text: string): string[] {
  return wordsOf(text)
    .filter((word) => !isStopWord(word))
    .map(stem);
}

export function isStopWord(word: string): boolean {
  return STOP_WORDS.has(word.toLowerCase());
}

const bySynonym = (groups: readonly (readonly string[])[]): ReadonlyMap<string, ReadonlySet<string>> => {
  const found = new Map<string, Set<string>>();
  for (const stems of groups.map((group) => group.map(stem)))
    for (const one of stems) found.set(one, new Set([...(found.get(one) ?? []), ...stems]));
  return found;
};
const SAME_ACTION = bySynonym(ACTIONS);
const SAME_MEANING = bySynonym(MEANINGS);

/** Whether a word is one of this model's own, and so no name of a thing. */
export function isPlainEnglish(word: string): boolean {
  return isStopWord(word) || ASKING_VERBS.has(word) || DOING_VERBS.has(word) || DAY_WORDS.has(word) || SAME_MEANING.has(stem(word));
}

/** Whether two stems order the same thing to be done. */
export function areSameAction(one: string, other: string): boolean {
  return one === other || (SAME_ACTION.get(one)?.has(other) ?? false);
}

/** How well a set of stems knows a stem: 1 as it stands, 0.7 through a synonym, 0 not at all. */
export function knows(stems: ReadonlySet<string>, wanted: string): number {
  if (stems.has(wanted)) return 1;
  return [...(SAME_MEANING.get(wanted) ?? [])].some((synonym) => stems.has(synonym)) ? 0.7 : 0;
}
