// Terms are kept in the long-term store: all conversations of the organisation have the same ones.
async function handler({ input: { term, meaning } }, ctx) {
  const key = term.trim().toLowerCase();
  const known = await ctx.store.get(key);
  if (meaning === undefined) {
    return known ? `**${known.term}**: ${known.meaning}` : `There is no term "${term}".`;
  }
  await ctx.store.put(key, { term: term.trim(), meaning });
  return known ? `Changed **${known.term}**, which was: ${known.meaning}` : `Added **${term.trim()}**.`;
}
