async function handler({ input }) {
  const { lines, tax_percent } = input;
  const net = lines.reduce((sum, { cents, quantity }) => sum + cents * quantity, 0);
  const tax = Math.round((net * tax_percent) / 100);
  return { result: { net, tax, total: net + tax } };
}
