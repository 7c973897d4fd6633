export const list = (text: string): readonly string[] => text.trim().split(/\s+/);

export const STOP_WORDS: ReadonlySet<string> = new Set(
  list(`a an the this that these those some any i me my mine we us our ours you your yours he him his she her hers it its they them their
    theirs who whom whose which what where when why how s t d m re ll ve is are was were be been being am do does did doing has have had
    having can could will would shall should may might must ought of in on at by for from to with because since until during while whether
    without within into onto about over under between than as and or but not no nor so if then else also too both each every all per via up
    down out off again there here just only very really please thanks thank hello hi hey ok okay yes now still already ever get gets show
    shows give gives tell tells display fetch retrieve read view see let want wants need needs like know help say says saying look lookup
    using use kindly go ahead don many much more most less least other another same such one current currently anything something everything
    nothing named called titled inside`),
);

/** Verbs that ask to be told something; they point at a tool and ask for no answer of their own. */
export const ASKING_VERBS: ReadonlySet<string> = new Set(
  list(`find search list look lookup browse query locate get show fetch read retrieve load view display give tell describe check compute
    compare explain summarise summarize sort report`),
);

export const DOING_VERBS: ReadonlySet<string> = new Set(
  list(`add approve assign begin block book buy call cancel change clear close confirm copy create delete destroy disable divide drop edit email
    enable end file forward insert invite invoice issue lock mail make mark message move multiply notify open order pay place play post put refund
    register reject remind remove rename reorder reply request reserve reset restart return revoke run save schedule sell send set share ship
    start stop submit subtract switch take transfer translate turn undo unlock update upload write`),
);

/** Verbs of one meaning; only these stand for each other where something is changed. */
const ACTIONS = `buy purchase order | book reserve | delete remove erase destroy | create make | add insert append put | start begin |
  update change edit modify set rename | send mail email message | cancel revoke | stop end finish`;
/** Words of one meaning, by which tools and fields are found. */
const MEANINGS = `${ACTIONS} | find search list look query locate | total sum | average mean | count number quantity | price cost | item line |
  recent latest last newest | status state | location address place | available stock | multiply times`;

const IRREGULAR = new Map(
  Object.entries({
    sent: 'send',
    paid: 'pay',
    people: 'person',
    spent: 'spend',
    availability: 'availabl',
  }),
);

export const NEGATIONS: ReadonlySet<string> = new Set(
  list("not never no without don't dont doesn't"),
);

export function wordsOf(text: string): string[] {
  const spaced = text
    .replaceAll(/\be-mail/gi, 'email')
    .replaceAll(/([\p{Ll}\p{N}])(?=\p{Lu})|(\p{Lu})(?=\p{Lu}\p{Ll})/gu, '$& ');
  return spaced.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** An id's words as a person writes them: `getAverageSpend` is "get average spend". */
export function humanised(id: string): string {
  return wordsOf(id).join(' ');
}

/**
 * Cuts the endings that grammar adds, so that "cancelled" meets "cancel" and "orders" meets
 * "order".
 */
export function stem(word: string): string {
  const lower = word.toLowerCase();
  if (lower.length < 4 || IRREGULAR.has(lower))
    return IRREGULAR.get(lower) ?? lower.replace(/^ids$/, 'id');
  const singular = lower.replace(/ies$/, 'y').replace(/(?<=s|x|z|ch|sh)es$|(?<=[^sui])s$/, '');
  const bare = singular.replace(/(?<=.{5})ation$|(?<=[aeiouy].+)(?:ing|ed)$|(?<=.{4})ly$/, '');
  const even = bare.length < 4 ? bare : bare.replace(/e$/, '').replace(/(?<=.{5})at$/, '');
  return even.length < 4 ? even : even.replace(/([^aeiou])\1$/, '$1');
}

export function stemsOf(text: string): string[] {
  return wordsOf(text).flatMap((word) => (STOP_WORDS.has(word) ? [] : [stem(word)]));
}

function bySynonym(groups: string): ReadonlyMap<string, ReadonlySet<string>> {
  const stems = groups.split('|').map((group) => list(group).map(stem));
  return new Map(
    stems.flat().map((one) => [one, new Set(stems.filter((group) => group.includes(one)).flat())]),
  );
}
const SAME_ACTION = bySynonym(ACTIONS);
const SAME_MEANING = bySynonym(MEANINGS);

/** Tells whether a word is one of this model's own, and so no name of a thing. */
export function isPlainEnglish(word: string): boolean {
  return (
    [STOP_WORDS, ASKING_VERBS, DOING_VERBS].some((words) => words.has(word)) ||
    SAME_MEANING.has(stem(word))
  );
}

export function areSameAction(one: string, other: string): boolean {
  return one === other || (SAME_ACTION.get(one)?.has(other) ?? false);
}

/**
 * Rates how well a set of stems knows a stem: 1 as it stands, 0.7 through a synonym, 0 not at all.
 */
export function knows(stems: ReadonlySet<string>, wanted: string): number {
  if (stems.has(wanted)) return 1;
  return [...(SAME_MEANING.get(wanted) ?? [])].some((synonym) => stems.has(synonym)) ? 0.7 : 0;
}
